import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { openPointTexts } from "./open-points.ts";
import type { StatementException } from "./statement.ts";

/** Lists what was open when a month was closed, each with its reason. */
export function ExceptionTable({ exceptions }: { exceptions: readonly StatementException[] }) {
  const decimals = columnDecimals(exceptions.map(({ amountUsd }) => amountUsd));
  return (
    <DataTable
      caption="Exceptions"
      columns={[
        {
          label: "Provider",
          cell: ({ provider, kind }) => (
            <>
              <span className="break-all font-medium">{provider}</span>
              <span className="block text-muted text-small">{openPointTexts[kind].name}</span>
            </>
          ),
        },
        { label: "Reason", cell: ({ reason }) => <span className="wrap-anywhere">{reason}</span> },
        {
          label: "Amount",
          numeric: true,
          small: "aside",
          cell: ({ amountUsd }) => <Usd amount={amountUsd} decimals={decimals} />,
        },
      ]}
      rows={exceptions}
      rowKey={({ provider, kind }) => `${provider} ${kind}`}
      empty={<p>None: all amounts agreed.</p>}
    />
  );
}
