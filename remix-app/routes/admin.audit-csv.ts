import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { auditCsv, csvLineLimit, readAuditFilters, readAuditLog } from "../admin/audit-log.ts";
import { requireInfrastructureAdmin } from "../admin/require-admin.ts";

/** The audit log under the page's filters, as a file. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const filters = readAuditFilters(new URL(request.url));
  const { lines } = await readAuditLog(context, { filters, cursor: null, limit: csvLineLimit });
  return new Response(auditCsv(lines), {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": 'attachment; filename="audit-log.csv"',
      "Cache-Control": "private, no-store",
    },
  });
}
