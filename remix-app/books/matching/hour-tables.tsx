import type { ReactNode } from "react";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { countOf, formatCount, typesetMinus } from "../../ui/format-amount.ts";
import type { Counts, HourLine, UsedKey } from "./hours.ts";

/** The maximum number of keys of a line that are listed below it. */
const keysShown = 2;

/** Returns the hours between which a line's calls began, such as "14:00–15:00 UTC". */
export function hourText(hour: string): string {
  const start = Number(hour.slice(11, 13));
  const name = (number: number) => `${String(number).padStart(2, "0")}:00`;
  return `${name(start)}–${name(start + 1)} UTC`;
}

/** Returns the query that lists a line's calls. */
export function lineQuery({ hour, model }: Pick<HourLine, "hour" | "model">, keep: Record<string, string>): string {
  return `?${new URLSearchParams({ ...keep, hour: hour.slice(11, 13), model })}`;
}

/** Returns a key's id, or what its usage is without one. */
function keyName(keyId: string | null): string {
  return keyId ?? "Without a key";
}

/** Compares the hours of a provider's day with the calls, with a line for each hour and model. */
export function HourTable({
  lines,
  name,
  keep,
  empty,
}: {
  lines: readonly HourLine[];
  name: string;
  /** Query parameters of the page. */
  keep: Record<string, string>;
  empty: ReactNode;
}) {
  const measures = [
    ["requests", "Requests"],
    ["inputTokens", "Input tokens"],
    ["cachedInputTokens", "Cached"],
    ["cacheWriteTokens", "Cache writes"],
    ["outputTokens", "Output tokens"],
  ] as const;
  const columns = measures.flatMap(([measure, label]): DataColumn<HourLine>[] =>
    lines.some(({ stated, metered }) => (stated[measure] ?? 0) + (metered[measure] ?? 0) > 0)
      ? [{ label, numeric: true, cell: (line) => <Difference line={line} measure={measure} /> }]
      : [],
  );
  return (
    <DataTable
      caption={`Hours of ${name}`}
      rows={lines}
      rowKey={({ hour, model }) => `${hour} ${model}`}
      empty={empty}
      from="lg"
      columns={[
        { label: "Hour", cell: (line) => <LineName line={line} /> },
        ...columns,
        {
          label: "Calls",
          numeric: true,
          small: "aside",
          cell: (line) =>
            line.calls === 0 ? (
              "None"
            ) : (
              <a className="link" href={`${lineQuery(line, keep)}#calls`}>
                {countOf(line.calls, "call")}
              </a>
            ),
        },
      ]}
    />
  );
}

function LineName({ line: { hour, model, keys } }: { line: HourLine }) {
  return (
    <>
      <span className="whitespace-nowrap tabular-nums">{hourText(hour)}</span>
      <span className="block break-all">{model}</span>
      {keys.slice(0, keysShown).map((key) => (
        <span key={`${key.keyId} ${key.model}`} className="block break-all font-normal text-muted text-small">
          {keyName(key.keyId)}
          {key.model === model ? null : ` as ${key.model}`}: {formatCount(key.inputTokens)} in,{" "}
          {formatCount(key.outputTokens)} out{key.isCounted ? null : ", not through the gateway"}
        </span>
      ))}
      {keys.length > keysShown ? (
        <span className="block font-normal text-muted text-small">
          {countOf(keys.length - keysShown, "more key")}, in the CSV
        </span>
      ) : null}
    </>
  );
}

/** Shows what the provider counted beyond the calls, and both counts. */
function Difference({ line: { stated, metered }, measure }: { line: HourLine; measure: keyof Counts }) {
  const [theirs, ours] = [stated[measure], metered[measure] ?? 0];
  if (theirs === null) return <span className="text-muted">Not stated</span>;
  const difference = theirs - ours;
  return (
    <>
      <span className={difference === 0 ? "text-muted" : "font-medium"}>
        {difference > 0 ? "+" : ""}
        {typesetMinus(formatCount(difference))}
      </span>
      <span className="block text-muted text-small">
        {formatCount(theirs)} − {formatCount(ours)}
      </span>
    </>
  );
}

/** Lists a provider's keys, each with a form that marks it as used only by this gateway. */
export function KeyTable({ keys, name }: { keys: readonly UsedKey[]; name: string }) {
  return (
    <DataTable
      caption={`Keys of ${name}`}
      rows={keys}
      rowKey={({ keyId }) => keyName(keyId)}
      empty={`${name} counted nothing on this day.`}
      columns={[
        { label: "Key", cell: ({ keyId }) => <span className="break-all">{keyName(keyId)}</span> },
        { label: "Input tokens", numeric: true, cell: ({ inputTokens }) => formatCount(inputTokens) },
        { label: "Output tokens", numeric: true, cell: ({ outputTokens }) => formatCount(outputTokens) },
        {
          label: "Use",
          cell: ({ isMarked, isCounted }) =>
            isMarked ? "Only this gateway" : isCounted ? "Counted as the gateway’s" : "Not through the gateway",
        },
        { label: "Action", cell: (key) => <MarkKey usedKey={key} /> },
      ]}
    />
  );
}

function MarkKey({ usedKey: { keyId, isMarked } }: { usedKey: UsedKey }) {
  if (keyId === null) return "–";
  const action = isMarked ? "Remove mark" : "Mark as the gateway’s";
  return (
    <AccountForm>
      <input type="hidden" name="keyId" value={keyId} />
      <input type="hidden" name="marked" value={String(!isMarked)} />
      <Button variant="secondary" aria-label={`${action}: ${keyId}`}>
        {action}
      </Button>
    </AccountForm>
  );
}
