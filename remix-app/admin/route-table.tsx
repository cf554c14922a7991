import { attemptResult } from "../studio/runs/run-facts.ts";
import { DataTable } from "../ui/data-table.tsx";
import { ExactTime, RelativeTime } from "../ui/moment.tsx";
import { findServingFault } from "./models.ts";
import type { ModelRoute, RoutedModel } from "./providers.ts";
import type { FoundRun } from "./runs.ts";

interface Row {
  model: RoutedModel;
  route: ModelRoute | null;
}

/** Lists the routes of models: which are ready, and what failed recently. A model without a route also gets a row. */
export function RouteTable({ models }: { models: readonly RoutedModel[] }) {
  const rows = models.flatMap((model): Row[] =>
    model.routes.length > 0 ? model.routes.map((route) => ({ model, route })) : [{ model, route: null }],
  );
  return (
    <DataTable
      caption="Routes"
      rows={rows}
      rowKey={({ model, route }) => `${model.model} ${route?.position ?? 0}`}
      empty="No model is enabled. Enable one on the Models page."
      from="lg"
      columns={[
        {
          label: "Route",
          cell: ({ model, route }) => (
            <>
              <a href={`/admin/models?${new URLSearchParams({ model: model.model })}`} className="link font-medium">
                {model.displayName}
              </a>
              {route ? (
                <span className="block break-all text-muted text-small">
                  {route.position}. {route.provider}, {route.providerModel}
                </span>
              ) : null}
            </>
          ),
        },
        { label: "Setup", small: "aside", cell: (row) => <Setup row={row} /> },
        {
          label: "Failed in the last hour",
          numeric: true,
          cell: ({ route }) => {
            const failed = route?.failedLastHour ?? 0;
            return <span className={failed > 0 ? "text-bad" : "text-muted"}>{failed}</span>;
          },
        },
        { label: "Last failure", cell: ({ route }) => <LastFailure failure={route?.lastFailure ?? null} /> },
      ]}
    />
  );
}

function Setup({ row: { model, route } }: { row: Row }) {
  const open = model.routes.filter(({ enabled }) => enabled);
  const fault = findServingFault({ hasRoute: open.length > 0, hasPrice: open.some(({ hasPrice }) => hasPrice) });
  if (fault) return <span className="text-bad">{fault}: callers get 404</span>;
  if (!route?.enabled) return <span className="text-muted">Disabled</span>;
  return route.hasPrice ? "Complete" : <span className="text-bad">No price: skipped</span>;
}

function LastFailure({ failure }: { failure: ModelRoute["lastFailure"] }) {
  if (!failure) return <span className="text-muted">None</span>;
  return (
    <>
      <span>{attemptResult(failure)}</span>
      <span className="block text-muted text-small">
        <RelativeTime at={failure.at} />, <ExactTime at={failure.at} /> ·{" "}
        <a href={`/admin/runs/${failure.runId}`} className="link">
          Run
        </a>
      </span>
      {failure.upstreamRequestId ? (
        <span className="block break-all text-muted text-small">Provider request ID {failure.upstreamRequestId}</span>
      ) : null}
    </>
  );
}

/** Lists the runs that a search found. */
export function FoundRuns({ runs }: { runs: readonly FoundRun[] }) {
  return (
    <DataTable
      caption="Runs"
      rows={runs}
      rowKey={({ id }) => id}
      empty="No run matches. Enter a full run ID, or the full request ID of a run from the last 31 days."
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
