import type { LoaderFunctionArgs } from "@remix-run/node";
import { auditColumns, linesPerRead, readAuditFilters, readAuditLog } from "../../admin/audit-log.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage } from "../../http/list-page.ts";

/**
 * Downloads the complete audit log with the page's filters. Permission is checked again for each batch of entries, so
 * the file ends early if the permission is revoked midway.
 */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const filters = readAuditFilters(new URL(request.url));
  const pages = eachPage(async (after) => {
    const { lines: records, nextCursor } = await readAuditLog(context, {
      filters,
      cursor: after ?? null,
      limit: linesPerRead,
    });
    return { records, nextCursor };
  });
  return createCsvResponse(auditColumns, { name: "audit-log", pages });
}
