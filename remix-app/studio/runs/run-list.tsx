import { describeRefusal } from "#shared/refusal-message.ts";
import { formatExactDateTime } from "../../http/date-text.ts";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount, formatMs } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { isCostUnknown } from "./pricing.ts";
import type { RefusedCall } from "./refused-call.ts";
import { callerName, statusNames } from "./run-facts.ts";
import type { RunSort, RunSummary } from "./run-schema.ts";

interface RunListProps {
  runs: RunSummary[];
  runsPath: string;
  /** The list's query, which the pages of runs keep. */
  search: string;
  sort: RunSort;
  filtered: boolean;
  searchedAll: boolean;
}

const captions = {
  time: "Runs, newest first",
  cost: "Runs, highest cost first",
  tokens: "Runs, most tokens first",
  latency: "Runs, slowest first",
} as const;

/** Lists runs as a table, and on small screens as cards with the most important columns. */
export function RunList({ runs, runsPath, search, sort, filtered, searchedAll }: RunListProps) {
  const costVisible = isCostVisible(runs);
  const costDecimals = columnDecimals(runs.map((run) => (costVisible ? run.costUsd : run.billedCredits)));
  return (
    <DataTable
      caption={captions[sort]}
      from="lg"
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
        timeColumn({ runsPath, search }),
        { label: "Key", cell: (run) => <bdi className="wrap-anywhere">{callerName(run)}</bdi> },
        { label: "Model", cell: ({ model }) => <span className="wrap-anywhere">{model}</span> },
        {
          label: "Status",
          cell: ({ status, errorCode }) => (
            <span className={status === "failed" ? "text-bad" : undefined} title={errorCode ?? undefined}>
              {statusNames[status]}
            </span>
          ),
        },
        { label: "Tokens in / out", numeric: true, cell: tokensOf },
        { label: "Latency", numeric: true, cell: ({ latencyMs }) => (latencyMs === null ? "–" : formatMs(latencyMs)) },
        {
          label: costVisible ? "Cost" : "Credits",
          numeric: true,
          small: "aside",
          cell: (run) =>
            costVisible ? (
              <Usd amount={run.costUsd} decimals={costDecimals} isUnknown={isCostUnknown(run)} />
            ) : (
              <Credits amount={run.billedCredits} decimals={costDecimals} />
            ),
        },
      ]}
    />
  );
}

/** Lists calls that were refused before a run began. */
export function RefusedCallList(props: { calls: RefusedCall[]; runsPath: string; search: string; filtered: boolean }) {
  const { calls, runsPath, search, filtered } = props;
  return (
    <DataTable
      caption="Refused calls, newest first"
      from="lg"
      rows={calls}
      rowKey={({ id }) => id}
      empty={
        filtered
          ? "No refused calls match these filters. Remove a filter, or choose another date range."
          : "No call was refused in the last seven days."
      }
      columns={[
        timeColumn({ runsPath, search }),
        { label: "Key", cell: (call) => <bdi className="wrap-anywhere">{callerName(call)}</bdi> },
        { label: "Model", cell: ({ model }) => <span className="wrap-anywhere">{model ?? "–"}</span> },
        { label: "Status", small: "aside", cell: ({ httpStatus }) => <span className="text-bad">{httpStatus}</span> },
        { label: "Reason", cell: reasonOf },
      ]}
    />
  );
}

/** Returns whether the workspace shows what runs cost. Without runs, nothing is shown. */
export function isCostVisible(runs: readonly RunSummary[]): boolean {
  return runs.some(({ costUsd }) => costUsd !== null);
}

/** Returns the message of a refused call, as its caller got it. */
export function reasonOf({ errorCode: code, details }: RefusedCall): string {
  return describeRefusal({ code, details, isForCaller: false });
}

function timeColumn({ runsPath, search }: { runsPath: string; search: string }): DataColumn<{
  id: string;
  createdAt: string;
}> {
  return {
    label: "Time (UTC)",
    cell: ({ id, createdAt }) => (
      <a className="link font-medium sm:whitespace-nowrap" href={`${runsPath}/${id}${search}`}>
        <time dateTime={createdAt}>{formatExactDateTime(createdAt).replace(" UTC", "")}</time>
      </a>
    ),
  };
}

function tokensOf(run: RunSummary): string {
  if (isCostUnknown(run) && run.inputTokens + run.outputTokens === 0) return "–";
  return `${formatCount(run.inputTokens)} / ${formatCount(run.outputTokens)}`;
}
