import { Usd } from "../../ui/money.tsx";
import { percentOf } from "../costs/difference.ts";
import { DifferenceText } from "../costs/difference-text.tsx";
import type { InvoiceComparison as Comparison } from "./invoice-entry.ts";

/** What was metered, imported and otherwise invoiced in an invoice's period. */
export function InvoiceComparison({ comparison }: { comparison: Comparison | null }) {
  if (!comparison) {
    return <p className="text-muted">Its period is longer than a year, so that there is nothing to compare it with.</p>;
  }
  const { firstDay, lastDay, meteredUsd, importedUsd, importedRecords, importedDifferenceUsd } = comparison;
  const { otherInvoices, otherInvoicesUsd } = comparison;
  return (
    <div className="space-y-3">
      <p className="text-muted">
        {firstDay} to {lastDay}, whole days of UTC.
      </p>
      <dl className="grid grid-cols-[1fr_auto] gap-x-6 gap-y-2 sm:max-w-120">
        <dt>Metered of the provider, all accounts</dt>
        <dd className="text-right">
          <Usd amount={meteredUsd} />
        </dd>
        <dt>Imported of the account, {importedRecords === 1 ? "1 record" : `${importedRecords} records`}</dt>
        <dd className="text-right">
          <Usd amount={importedUsd} />
        </dd>
        <dt className="font-medium">The invoice less what was imported</dt>
        <dd className="text-right font-medium">
          <DifferenceText usd={importedDifferenceUsd} percent={percentOf(importedDifferenceUsd, importedUsd)} />
        </dd>
        {otherInvoices > 0 ? (
          <>
            <dt>{otherInvoices === 1 ? "Another invoice" : `${otherInvoices} other invoices`} of the account</dt>
            <dd className="text-right">
              <Usd amount={otherInvoicesUsd} />
            </dd>
          </>
        ) : null}
      </dl>
    </div>
  );
}
