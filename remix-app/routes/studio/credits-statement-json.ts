import type { LoaderFunctionArgs } from "@remix-run/node";
import { createJsonFile } from "../../http/json-document.ts";
import { readFileMonth } from "../../studio/costs/month.ts";
import { creditStatementFileName, readCreditStatement } from "../../studio/credits/statement.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads a workspace's statement of a month with exact credits. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { month } = readFileMonth(request, context);
  const statement = await readCreditStatement(context, { reader: member, month });
  return createJsonFile(creditStatementFileName(statement), statement);
}
