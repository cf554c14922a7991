import { formatDay } from "../http/date-text.ts";
import { subtractAmounts } from "../studio/costs/difference.ts";
import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals } from "../ui/format-amount.ts";
import { Usd } from "../ui/money.tsx";
import type { DayFigures } from "./platform-month.ts";

/** Lists a provider's month day by day: what runs cost, and what was imported into the platform's books. */
export function DayTable({ days }: { days: readonly DayFigures[] }) {
  const rows = days.map((day) => ({ ...day, differenceUsd: subtractAmounts(day.importedUsd, day.meteredUsd) }));
  const several = new Set(rows.map(({ accountId }) => accountId)).size > 1;
  const decimals = columnDecimals(rows.flatMap((row) => [row.meteredUsd, row.importedUsd, row.differenceUsd]));
  return (
    <DataTable
      caption="Days"
      rows={rows}
      rowKey={({ day, accountId }) => `${day} ${accountId ?? ""}`}
      empty="Nothing was metered or imported on any day of this month."
      columns={[
        {
          label: "Day",
          cell: ({ day, accountId }) => (
            <>
              <span className="whitespace-nowrap tabular-nums">{formatDay(day)}</span>
              {several ? (
                <span className="block break-all text-muted text-small">
                  {accountId === null ? "No account named" : `Account ${accountId}`}
                </span>
              ) : null}
            </>
          ),
        },
        {
          label: "Metered",
          numeric: true,
          cell: ({ meteredUsd }) => <Usd amount={meteredUsd} decimals={decimals} />,
        },
        {
          label: "Imported",
          numeric: true,
          cell: ({ importedUsd }) => <Usd amount={importedUsd} decimals={decimals} />,
        },
        {
          label: "Imported − metered",
          numeric: true,
          small: "aside",
          cell: ({ differenceUsd }) => <Usd amount={differenceUsd} decimals={decimals} />,
        },
      ]}
    />
  );
}
