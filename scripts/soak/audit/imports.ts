import { formatDecimal, parseDecimal } from "../../../supabase/functions/_shared/decimal.ts";
import type { ReportedCost, ReportedInvoice } from "../traffic/importer.ts";
import { type Verdict, verdict } from "./verdict.ts";

/** An imported record as stored in the database. */
export type KeptRecord = { id: string; amountUsd: string };

const same = (one: string, other: string) => formatDecimal(parseDecimal(one)) === formatDecimal(parseDecimal(other));

/**
 * Checks that accepted costs and invoices are stored exactly once. A cost must have its newest accepted amount, and an
 * invoice the amount first reported.
 */
export function judgeImports({
  costs,
  invoices,
  keptCosts,
  keptInvoices,
}: {
  costs: readonly ReportedCost[];
  invoices: readonly ReportedInvoice[];
  keptCosts: readonly KeptRecord[];
  keptInvoices: readonly KeptRecord[];
}): Verdict {
  const failures: string[] = [];
  const [costRows, invoiceRows] = [Map.groupBy(keptCosts, ({ id }) => id), Map.groupBy(keptInvoices, ({ id }) => id)];
  let known = 0;
  for (const { externalRunId, observations } of costs) {
    const newest = observations.findLast(({ accepted }) => accepted);
    const rows = costRows.get(externalRunId) ?? [];
    if (!newest) continue;
    known += 1;
    const [row] = rows;
    if (!row || rows.length > 1) failures.push(`cost ${externalRunId} is kept ${rows.length} times`);
    else if (!same(row.amountUsd, newest.amountUsd)) {
      failures.push(`cost ${externalRunId} is ${row.amountUsd}, last observed was ${newest.amountUsd}`);
    }
  }
  for (const { reference, amountUsd, accepted } of invoices) {
    const rows = invoiceRows.get(reference) ?? [];
    if (rows.length > 1 || (accepted && rows.length === 0))
      failures.push(`invoice ${reference} is kept ${rows.length} times`);
    if (rows[0] && !same(rows[0].amountUsd, amountUsd))
      failures.push(`invoice ${reference} is ${rows[0].amountUsd}, not ${amountUsd}`);
  }
  return verdict("imports end in the newest", { figures: `${known} costs, ${invoices.length} invoices`, failures });
}
