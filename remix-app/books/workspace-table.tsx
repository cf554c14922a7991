import { Incomparable, Missing } from "../studio/costs/difference-text.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../ui/format-amount.ts";
import { Usd } from "../ui/money.tsx";
import type { WorkspaceFigures } from "./platform-month.ts";
import { WorkspaceLink } from "./workspace-link.tsx";

/**
 * Compares each workspace's metered cost with the cost that the workspace imported itself, for one provider and month.
 */
export function BookWorkspaceTable({ workspaces }: { workspaces: readonly WorkspaceFigures[] }) {
  const decimals = columnDecimals(
    workspaces.flatMap(({ meteredUsd, importedUsd, differenceUsd }) => [meteredUsd, importedUsd, differenceUsd]),
  );
  return (
    <DataTable
      caption="Workspaces"
      rows={workspaces}
      rowKey={({ workspaceId, accountId }) => `${workspaceId} ${accountId ?? ""}`}
      empty="No workspace has runs of this provider, or costs of its own, in this month."
      from="lg"
      columns={[
        {
          label: "Workspace",
          cell: ({ workspaceId, name, accountId }) => (
            <>
              {name === null ? (
                <span className="break-all">Deleted workspace {workspaceId}</span>
              ) : (
                <span className="font-medium">
                  <WorkspaceLink workspaceId={workspaceId} name={name} />
                </span>
              )}
              <span className="block break-all text-muted text-small">
                {accountId === null ? "No account named" : `Account ${accountId}`}
              </span>
            </>
          ),
        },
        { label: "Runs", numeric: true, cell: (row) => <RunCounts row={row} /> },
        {
          label: "Metered",
          numeric: true,
          small: "aside",
          cell: ({ meteredUsd }) => <Usd amount={meteredUsd} decimals={decimals} />,
        },
        {
          label: "Own imports",
          numeric: true,
          cell: ({ importedUsd, differenceUsd }) =>
            differenceUsd === null ? <Missing /> : <Usd amount={importedUsd} decimals={decimals} />,
        },
        {
          label: "Own imports − metered",
          numeric: true,
          cell: ({ differenceUsd }) =>
            differenceUsd === null ? <Incomparable /> : <Usd amount={differenceUsd} decimals={decimals} />,
        },
      ]}
    />
  );
}

function RunCounts({ row: { runs, estimatedRuns, closedRuns } }: { row: WorkspaceFigures }) {
  const parts = [
    estimatedRuns > 0 ? `${formatCount(estimatedRuns)} estimated` : [],
    closedRuns > 0 ? `${formatCount(closedRuns)} closed` : [],
  ].flat();
  return (
    <>
      {formatCount(runs)}
      {parts.length > 0 ? <span className="block text-muted text-small">{parts.join(", ")}</span> : null}
    </>
  );
}
