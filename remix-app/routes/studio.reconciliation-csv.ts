import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { csvFile } from "../http/csv.ts";
import { allRecords, recordsPerRead } from "../studio/all-records.ts";
import { rangeOfFile } from "../studio/file-range.ts";
import { cellColumns } from "../studio/import-files.ts";
import { reconcileCosts } from "../studio/provider-imports.ts";
import { readReconciledRange } from "../studio/reconciled-range.ts";
import { cellsOf } from "../studio/reconciliation.ts";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

/** The reconciliation page's lines of the same address, all of them, as a file. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const { range, months, today } = readReconciledRange(new URL(request.url), { now: new Date() });
  rangeOfFile(range, context);
  const reader = { kind: "member", userId: user.id, workspaceId: workspace.id } as const;
  const records = await allRecords(
    (cursor) => reconcileCosts(context, { reader, query: { ...months, limit: recordsPerRead, cursor } }),
    context,
  );
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return csvFile(`reconciliation ${months.from.slice(0, 7)}`, cellColumns, cells);
}
