import { Card } from "../../../ui/card.tsx";
import { DataTable } from "../../../ui/data-table.tsx";
import { columnDecimals, countOf } from "../../../ui/format-amount.ts";
import { Usd } from "../../../ui/money.tsx";
import type { ImportReceipt } from "./import-answers.ts";

/** Shows the services of an import, with their shares of its amount. The rows add up to the import's amount. */
export function ServiceTable({
  services: { list, others },
  totalUsd,
}: {
  services: NonNullable<ImportReceipt["services"]>;
  totalUsd: string;
}) {
  const rows = [
    ...list.map(({ service, amountUsd }) => ({ name: service ?? "No service named", amountUsd })),
    ...(others.services > 0
      ? [{ name: `${countOf(others.services, "other service")}`, amountUsd: others.amountUsd }]
      : []),
  ];
  const decimals = columnDecimals(rows.map(({ amountUsd }) => amountUsd));
  return (
    <Card title="By service" lead="The services explain the imported amount. Only the daily totals count.">
      <DataTable
        caption="Amounts by service"
        columns={[
          { label: "Service", cell: ({ name }) => <span className="break-words">{name}</span> },
          { label: "Share", numeric: true, cell: ({ amountUsd }) => shareText(amountUsd, totalUsd) },
          {
            label: "Amount",
            numeric: true,
            small: "aside",
            cell: ({ amountUsd }) => <Usd amount={amountUsd} decimals={decimals} />,
          },
        ]}
        rows={rows}
        rowKey={({ name }) => name}
        empty={null}
      />
    </Card>
  );
}

/** Returns an amount's share of a total in percent, or a dash if the total is 0 or less. */
function shareText(amount: string, total: string): string {
  const whole = Number(total);
  return whole > 0 ? `${((Number(amount) / whole) * 100).toFixed(1).replace("-", "−")}%` : "–";
}
