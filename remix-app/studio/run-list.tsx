import { Link } from "@remix-run/react";
import { Moment } from "../ui/moment.tsx";
import { formatUsd } from "./format-amount.ts";
import type { RunSummary } from "./run-schema.ts";

const counts = new Intl.NumberFormat("en");

/** Runs as a table, and as cards of the columns that matter where the screen is small. */
export function RunList(props: { runs: RunSummary[]; workspaceId: string; filtered: boolean; now: string }) {
  const { runs, workspaceId, filtered, now } = props;
  if (runs.length === 0) {
    return (
      <p className="text-muted">
        {filtered
          ? "No run is like that. Take something out of the filter."
          : "No run yet. Make a key and call the gateway: each call shows up here."}
      </p>
    );
  }
  return (
    <table className="w-full text-left">
      <thead className="sr-only text-muted text-small sm:not-sr-only">
        <tr className="sm:border-line sm:border-b">
          <th scope="col" className="py-2 pr-3 font-medium">
            Run
          </th>
          <th scope="col" className="hidden py-2 pr-3 font-medium sm:table-cell">
            Status
          </th>
          <th scope="col" className="hidden py-2 pr-3 text-right font-medium sm:table-cell">
            Tokens in
          </th>
          <th scope="col" className="hidden py-2 pr-3 text-right font-medium sm:table-cell">
            Tokens out
          </th>
          <th scope="col" className="py-2 text-right font-medium">
            Cost
          </th>
        </tr>
      </thead>
      <tbody className="tabular-nums">
        {runs.map((run) => (
          <tr key={run.id} className="border-line border-b last:border-b-0">
            <th scope="row" className="py-2.5 pr-3 font-normal">
              <Link className="link font-medium" to={`/workspaces/${workspaceId}/ai/runs/${run.id}`}>
                {run.model}
              </Link>
              <span className="block text-muted text-small">
                {run.feature} · <Moment at={run.createdAt} now={now} />
                <span className="sm:hidden"> · {run.status}</span>
              </span>
            </th>
            <td className={`hidden py-2.5 pr-3 sm:table-cell ${run.status === "failed" ? "text-bad" : ""}`}>
              {run.status}
            </td>
            <td className="hidden py-2.5 pr-3 text-right sm:table-cell">{counts.format(run.inputTokens)}</td>
            <td className="hidden py-2.5 pr-3 text-right sm:table-cell">{counts.format(run.outputTokens)}</td>
            <td className="py-2.5 text-right">
              {run.costUsd === null ? "–" : <span title={`$${run.costUsd}`}>{formatUsd(run.costUsd)}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
