import type { LoaderFunctionArgs } from "@remix-run/node";
import { reconciliationFile } from "../../studio/costs/book-files.ts";
import { readFileMonth } from "../../studio/costs/month.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all lines of a month's reconciliation. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { month } = readFileMonth(request, context);
  return reconciliationFile(context, { reader: member, name: `reconciliation-${month}`, month });
}
