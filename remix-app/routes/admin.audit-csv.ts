import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { auditColumns, csvLineLimit, readAuditFilters, readAuditLog } from "../admin/audit-log.ts";
import { requireInfrastructureAdmin } from "../admin/require-admin.ts";
import { csvFile } from "../http/csv.ts";

/** The audit log under the page's filters, as a file. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const filters = readAuditFilters(new URL(request.url));
  const { lines } = await readAuditLog(context, { filters, cursor: null, limit: csvLineLimit });
  return csvFile("audit-log", auditColumns, lines);
}
