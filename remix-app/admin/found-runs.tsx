import { DataTable } from "../ui/data-table.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { FoundRun } from "./runs.ts";

/** The runs that a search found. */
export function FoundRuns({ runs }: { runs: readonly FoundRun[] }) {
  return (
    <DataTable
      caption="Runs"
      rows={runs}
      rowKey={({ id }) => id}
      empty="No run matches. Enter a whole run id, or the whole request id of a run of the last 31 days."
      columns={[
        {
          label: "Run",
          cell: ({ id, model, createdAt }) => (
            <>
              <a href={`/admin/runs/${id}`} className="link font-medium">
                {model}
              </a>
              <span className="block text-muted text-small">
                <RelativeTime at={createdAt} />
              </span>
            </>
          ),
        },
        { label: "Workspace", cell: ({ workspaceId, workspaceName }) => workspaceName ?? workspaceId },
        {
          label: "Status",
          small: "aside",
          cell: ({ status, errorCode }) => (
            <span className={`block first-letter:uppercase ${status === "failed" ? "text-bad" : ""}`}>
              {errorCode ? `${status} (${errorCode})` : status}
            </span>
          ),
        },
      ]}
    />
  );
}
