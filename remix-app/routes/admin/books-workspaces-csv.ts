import type { LoaderFunctionArgs } from "@remix-run/node";
import { workspaceColumns } from "../../admin/books/book-files.ts";
import { explainPlatformMonth, readBookMonth } from "../../admin/books/platform-month.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { csvFile } from "../../http/csv.ts";

/** Downloads one provider's figures of a month, with a row per workspace. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const asked = readBookMonth(params, context);
  const { workspaces } = await explainPlatformMonth(context, asked);
  return csvFile(workspaceColumns, { name: `workspaces-${asked.provider}-${asked.month}`, pages: [workspaces] });
}
