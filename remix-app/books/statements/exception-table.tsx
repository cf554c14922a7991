import { addAmounts } from "#shared/decimal.ts";
import { stateTexts } from "../../studio/costs/reconciliation.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import type { StatementException } from "./statement.ts";

/** The maximum number of rows with a provider each, so that the page stays small. */
const maxRows = 20;

type Row = Pick<StatementException, "provider" | "kind" | "reason" | "amountUsd">;

/** Lists what was open when a month was closed, each with its reason. Too many are summed by kind and reason. */
export function ExceptionTable({ exceptions }: { exceptions: readonly StatementException[] }) {
  const isListed = exceptions.length <= maxRows;
  const rows = isListed ? exceptions : sumByReason(exceptions);
  const decimals = columnDecimals(rows.map(({ amountUsd }) => amountUsd));
  return (
    <>
      <DataTable
        caption="Exceptions"
        columns={[
          {
            label: "Provider",
            cell: ({ provider, kind }) => (
              <>
                <span className="break-all font-medium">{provider}</span>
                <span className="block text-muted text-small">{stateTexts[kind].name}</span>
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
        rows={rows}
        rowKey={({ provider, kind, reason }) => `${provider} ${kind} ${reason}`}
        empty={<p>None: all amounts agreed.</p>}
      />
      {isListed ? null : (
        <p className="mt-3 text-muted text-small">
          Each line is the sum of the providers with the same reason. {formatCount(exceptions.length)} exceptions by
          provider are in the CSV.
        </p>
      )}
    </>
  );
}

function sumByReason(exceptions: readonly StatementException[]): Row[] {
  const groups = Map.groupBy(exceptions, ({ kind, reason }) => `${kind} ${reason}`);
  return [...groups.values()].flatMap((own) => {
    const [first] = own;
    if (first === undefined || own.length === 1) return own;
    const amountUsd = own.map((each) => each.amountUsd).reduce(addAmounts, "0");
    return [{ ...first, provider: `${formatCount(own.length)} providers`, amountUsd }];
  });
}
