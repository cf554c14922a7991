import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount, formatMs } from "../../ui/format-amount.ts";
import { RelativeTime } from "../../ui/moment.tsx";
import { Credits, Usd } from "../../ui/money.tsx";
import { isCostUnknown } from "./pricing.ts";
import { statusNames } from "./run-facts.ts";
import type { RunSummary } from "./run-schema.ts";

/** Lists runs as a table, and on small screens as cards with the most important columns. */
export function RunList(props: { runs: RunSummary[]; runsPath: string; filtered: boolean; searchedAll: boolean }) {
  const { runs, runsPath, filtered, searchedAll } = props;
  const costVisible = runs.some(({ costUsd }) => costUsd !== null);
  const costDecimals = columnDecimals(runs.map(({ costUsd }) => costUsd));
  const creditDecimals = columnDecimals(runs.map(({ billedCredits }) => billedCredits));
  return (
    <DataTable
      caption="Runs, newest first"
      rows={runs}
      rowKey={({ id }) => id}
      empty={
        !searchedAll
          ? "No matching runs so far. Continue searching, or choose a shorter date range."
          : filtered
            ? "No runs match these filters. Remove a filter, or choose another date range."
            : "No runs yet. Create an API key and send a request: it will appear here."
      }
      columns={[
        {
          label: "Run",
          cell: (run) => (
            <>
              <a className="link font-medium" href={`${runsPath}/${run.id}`}>
                {run.model}
              </a>
              <span className="block text-muted text-small">
                {run.feature} · <RelativeTime at={run.createdAt} />
              </span>
            </>
          ),
        },
        {
          label: "Status",
          cell: ({ status }) => (
            <span className={status === "failed" ? "text-bad" : undefined}>{statusNames[status]}</span>
          ),
        },
        { label: "Tokens in", numeric: true, small: "hidden", cell: (run) => tokensOf(run, run.inputTokens) },
        { label: "Tokens out", numeric: true, small: "hidden", cell: (run) => tokensOf(run, run.outputTokens) },
        {
          label: "Latency",
          numeric: true,
          cell: ({ latencyMs }) => (latencyMs === null ? "–" : formatMs(latencyMs)),
        },
        {
          label: "Credits",
          numeric: true,
          small: costVisible ? "hidden" : "aside",
          cell: (run) => <Credits amount={run.billedCredits} decimals={creditDecimals} />,
        },
        ...(costVisible
          ? [
              {
                label: "Cost",
                numeric: true,
                small: "aside" as const,
                cell: (run: RunSummary) => (
                  <Usd amount={run.costUsd} decimals={costDecimals} isUnknown={isCostUnknown(run)} />
                ),
              },
            ]
          : []),
      ]}
    />
  );
}

function tokensOf(run: RunSummary, tokens: number): string {
  return isCostUnknown(run) && tokens === 0 ? "–" : formatCount(tokens);
}
