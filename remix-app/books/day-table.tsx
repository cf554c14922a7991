import { formatDay } from "../http/date-text.ts";
import { RoundingNote, type ShownSum } from "../studio/costs/rounding-note.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals } from "../ui/format-amount.ts";
import { Usd } from "../ui/money.tsx";
import { type DayLine, dayLines } from "./day-lines.ts";
import { dayPage, matchingOf } from "./matching/matching.ts";
import type { DayFigures } from "./platform-month.ts";

const columns = [
  ["meteredUsd", "Metered"],
  ["importedUsd", "Imported"],
  ["differenceUsd", "Imported − metered"],
] as const;

/**
 * Lists a provider's month day by day: what runs cost, and what was imported into the platform's books. A day with
 * several accounts lists them below its total. A day with a difference links to its calls, if they can be found.
 */
export function DayTable({ days, provider }: { days: readonly DayFigures[]; provider: string }) {
  const { lines, total, hasAccounts } = dayLines(days);
  const rows = total ? [...lines, total] : lines;
  const decimals = columnDecimals(rows.flatMap((row) => [row.meteredUsd, row.importedUsd, row.differenceUsd]));
  const [metered, imported, difference] = columns.map(([name, label]) => ({
    label,
    numeric: true,
    cell: (row: DayLine) => <Usd amount={row[name]} decimals={decimals} />,
  }));
  if (!metered || !imported || !difference) return null;
  return (
    <>
      <DataTable
        caption="Days"
        rows={rows}
        rowKey={({ of, day, accountId }) => `${of} ${day} ${accountId ?? ""}`}
        empty="Nothing was metered or imported on any day of this month."
        columns={[
          { label: "Day", cell: (line) => <Name line={line} provider={provider} /> },
          metered,
          imported,
          { ...difference, small: "aside" },
        ]}
      />
      {hasAccounts ? null : <p className="mt-3 text-muted text-small">The accounts of each day are in the CSV.</p>}
      <RoundingNote sums={sumsOf({ lines, total, decimals })} />
    </>
  );
}

function Name({ line: { of, day, accountId, differenceUsd }, provider }: { line: DayLine; provider: string }) {
  if (of === "month") return <span className="font-medium">Total</span>;
  const account = accountId === undefined ? null : accountId === null ? "No account named" : `Account ${accountId}`;
  if (of === "account") return <span className="block break-all pl-4 text-muted">{account}</span>;
  return (
    <>
      <span className="whitespace-nowrap tabular-nums">
        {Number(differenceUsd) !== 0 && matchingOf(provider) ? (
          <a className="link" href={dayPage({ provider, day })} aria-label={`Find the calls of ${formatDay(day)}`}>
            {formatDay(day)}
          </a>
        ) : (
          formatDay(day)
        )}
      </span>
      {account === null ? null : <span className="block break-all text-muted text-small">{account}</span>}
    </>
  );
}

function sumsOf({
  lines,
  total,
  decimals,
}: {
  lines: readonly DayLine[];
  total: DayLine | null;
  decimals: number;
}): ShownSum[] {
  const days = lines.filter(({ of }) => of === "day");
  return columns.flatMap(([name, label]) => [
    { label, rows: days.map((line) => line[name]), total: total?.[name] ?? null, decimals },
    ...days.map((day) => ({
      label: `${label} on ${formatDay(day.day)}`,
      rows: lines.filter((line) => line.of === "account" && line.day === day.day).map((line) => line[name]),
      total: day[name],
      decimals,
    })),
  ]);
}
