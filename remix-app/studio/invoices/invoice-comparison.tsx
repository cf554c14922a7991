import type { ReactNode } from "react";
import { columnDecimals, countOf } from "../../ui/format-amount.ts";
import { UtcDay } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { percentOf } from "../costs/difference.ts";
import { Dash, Incomparable, Missing, RoundedDifference } from "../costs/difference-text.tsx";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import type { InvoiceComparison as Comparison } from "./invoice-entry.ts";
import { kindNames, signedAmount } from "./invoice-facts.ts";

/**
 * Compares an invoice with the metered costs, the imported costs and the other invoices of its period. Like the
 * reconciliation, compares an invoice without an account with all accounts of its provider.
 */
export function InvoiceComparison({
  invoice: { replacedBy = null, ...invoice },
  comparison,
}: {
  invoice: Pick<InvoiceRecord, "provider" | "accountId" | "kind" | "amountUsd"> & { replacedBy?: string | null };
  comparison: Comparison | null;
}) {
  if (!comparison) {
    return <p className="text-muted">The period is longer than a year, so there’s nothing to compare.</p>;
  }
  const { firstDay, lastDay, meteredUsd, importedUsd, importedRecords, importedDifferenceUsd } = comparison;
  const { otherInvoices, otherInvoicesUsd } = comparison;
  const amountUsd = replacedBy === null ? signedAmount(invoice) : "0";
  const kind = kindNames[invoice.kind];
  const scope = invoice.accountId === null ? "all accounts" : "this account";
  const decimals = columnDecimals([meteredUsd, importedUsd, otherInvoicesUsd, amountUsd]);
  return (
    <div className="space-y-3">
      <p className="text-muted">
        <UtcDay at={firstDay} /> to <UtcDay at={lastDay} /> (UTC)
      </p>
      <p className="wrap-anywhere text-muted">
        {invoice.accountId === null
          ? `It names no account, so it’s compared with all accounts of ${invoice.provider}.`
          : `It’s compared with account ${invoice.accountId} of ${invoice.provider} only.`}
      </p>
      <dl className="space-y-2 sm:max-w-120">
        <Row term={`Metered (${scope})`}>
          {meteredUsd === null ? (
            <Dash title="The workspace hides costs, or some runs name no account" text="not shown" />
          ) : (
            <Usd amount={meteredUsd} decimals={decimals} />
          )}
        </Row>
        <Row term={`Imported (${scope}, ${countOf(importedRecords, "record")})`}>
          {importedRecords > 0 ? <Usd amount={importedUsd} decimals={decimals} /> : <Missing />}
        </Row>
        <Row term={`This ${kind.toLowerCase()}${replacedBy === null ? "" : " (replaced, not counted)"}`}>
          <Usd amount={amountUsd} decimals={decimals} />
        </Row>
        {otherInvoices > 0 ? (
          <Row
            term={
              otherInvoices === 1
                ? "1 other invoice or credit note in this period"
                : `${otherInvoices} other invoices and credit notes in this period`
            }
          >
            <Usd amount={otherInvoicesUsd} decimals={decimals} />
          </Row>
        ) : null}
        <Row term={otherInvoices > 0 ? "All invoices − imported" : `${kind} − imported`} strong>
          {importedRecords > 0 ? (
            <RoundedDifference
              usd={importedDifferenceUsd}
              percent={percentOf(importedDifferenceUsd, importedUsd)}
              decimals={decimals}
            />
          ) : (
            <Incomparable />
          )}
        </Row>
      </dl>
    </div>
  );
}

/**
 * Warns that other invoices exist for the period, and that this invoice may have to replace one of them. Shows nothing
 * for a credit note, because a credit note counts in addition to the invoice that it reduces.
 */
export function OtherInvoicesNotice({
  invoice: { kind, accountId },
  comparison,
}: {
  invoice: Pick<InvoiceRecord, "kind" | "accountId">;
  comparison: Comparison | null;
}) {
  if (kind === "credit_note" || !comparison || comparison.otherInvoices === 0) return null;
  return (
    <Notice tone="warn">
      This provider{accountId === null ? "" : " account"} already has an invoice or credit note for the period. If this
      invoice corrects an earlier one, choose Edit and enter the earlier one’s reference under “Replaces”. Otherwise,
      both are counted.
    </Notice>
  );
}

/** Shows a term and its amount on one line if both fit, otherwise on two lines. */
function Row({ term, strong = false, children }: { term: string; strong?: boolean; children: ReactNode }) {
  return (
    <div className={`flex flex-wrap justify-between gap-x-6 ${strong ? "font-medium" : ""}`}>
      <dt>{term}</dt>
      <dd className="ml-auto text-right">{children}</dd>
    </div>
  );
}
