import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../ui/format-amount.ts";
import { Usd } from "../ui/money.tsx";
import type { WorkspaceFigures } from "./platform-month.ts";

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
              <WorkspaceLink workspaceId={workspaceId} name={name} />
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
            differenceUsd === null ? <EmptyValue /> : <Usd amount={importedUsd} decimals={decimals} />,
        },
        {
          label: "Own imports − metered",
          numeric: true,
          cell: ({ differenceUsd }) =>
            differenceUsd === null ? <EmptyValue /> : <Usd amount={differenceUsd} decimals={decimals} />,
        },
      ]}
    />
  );
}

/** Shows a workspace by its name, or by its id once it is deleted. */
function WorkspaceLink({ workspaceId, name }: { workspaceId: string; name: string | null }) {
  if (name === null) return <span className="break-all">Deleted workspace {workspaceId}</span>;
  return (
    <a className="link wrap-anywhere font-medium" href={`/admin/workspaces/${workspaceId}`}>
      {name}
    </a>
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

function EmptyValue() {
  return (
    <span className="text-muted">
      <span aria-hidden="true">–</span>
      <span className="sr-only">none</span>
    </span>
  );
}
