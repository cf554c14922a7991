import type { ReactNode } from "react";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { columnDecimals, formatMoney } from "../../ui/format-amount.ts";
import { RelativeTime, UtcDay } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import { kindNames, periodOf, signAmount, signedAmount } from "./invoice-facts.ts";

/** Lists invoices and credit notes, each with the invoice that it replaces. */
export function InvoiceList({
  records,
  base,
  empty,
}: {
  records: readonly InvoiceRecord[];
  /** The path of the invoice pages. */
  base: string;
  empty: ReactNode;
}) {
  const decimals = columnDecimals(records.map(({ amountUsd }) => amountUsd));
  const columns: [DataColumn<InvoiceRecord>, ...DataColumn<InvoiceRecord>[]] = [
    {
      label: "Invoice",
      cell: ({ id, reference, provider, appName, kind, replaces, replacedBy }) => (
        <>
          <a className="link break-all font-medium" href={`${base}/${id}`}>
            {reference}
          </a>
          <span className="block text-muted text-small">
            <DotSeparated
              facts={[
                provider,
                appName,
                kind === "invoice" ? null : kindNames[kind],
                replaces && `replaces ${replaces}`,
                replacedBy && `replaced by ${replacedBy}, doesn’t count`,
              ]}
            />
          </span>
        </>
      ),
    },
    { label: "Account", cell: ({ accountId }) => <span className="break-all">{accountId ?? "None"}</span> },
    { label: "Issued", cell: ({ issuedOn }) => <UtcDay at={issuedOn} /> },
    {
      label: "Period",
      cell: (invoice) => <span className="tabular-nums">{periodOf(invoice)}</span>,
    },
    { label: "Reviewed", cell: ({ reviewedAt }) => <RelativeTime at={reviewedAt} /> },
    {
      label: "Amount",
      numeric: true,
      small: "aside",
      cell: (invoice) => {
        const amount = <Usd amount={signedAmount(invoice)} decimals={decimals} />;
        return (
          <>
            {invoice.replacedBy === null ? amount : <del className="text-muted">{amount}</del>}
            <OriginalTotal invoice={invoice} />
          </>
        );
      },
    },
  ];
  return <DataTable caption="Invoices" columns={columns} rows={records} rowKey={({ id }) => id} empty={empty} />;
}

/** Shows the total on an invoice if it differs from the amount that counts, because of its currency or tax. */
function OriginalTotal({ invoice }: { invoice: InvoiceRecord }) {
  const { currency, totalAmount, amountUsd, taxAmount } = invoice;
  if (currency === null || totalAmount === null || (currency === "USD" && totalAmount === amountUsd)) return null;
  return (
    <span className="block whitespace-nowrap text-muted text-small">
      {formatMoney({ amount: signAmount(invoice, totalAmount), currency })}
      {taxAmount === "0" ? "" : " with tax"}
    </span>
  );
}
