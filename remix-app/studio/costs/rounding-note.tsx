import { addAmounts, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { formatUsd } from "../../ui/format-amount.ts";

/** A total and the rows that it is the sum of, as a page shows them. Amounts are exact decimal strings, or null. */
export interface ShownSum {
  label: string;
  rows: readonly (string | null)[];
  total: string | null;
  decimals: number;
}

/** The maximum number of sums that the note names. */
const maxSums = 3;

/**
 * Says what rounding makes of totals whose rows, as shown, add up to something else. Renders nothing if all add up.
 * @param props.exact where the exact amounts are
 */
export function RoundingNote({ sums, exact }: { sums: readonly ShownSum[]; exact?: string }) {
  const text = describeRounding(sums, exact);
  return text === null ? null : <p className="mt-3 text-muted text-small">{text}</p>;
}

/** Returns the sentence of {@link RoundingNote}, or null if all totals add up as shown. */
export function describeRounding(sums: readonly ShownSum[], exact = "in the CSV"): string | null {
  const gaps = sums.flatMap(({ label, rows, total, decimals }) => {
    const amounts = rows.filter((row) => row !== null);
    if (total === null || amounts.length === 0 || amounts.length < rows.length) return [];
    const shown = amounts.map((amount) => readShown(amount, decimals)).reduce(addAmounts, "0");
    const gap = shown !== readShown(total, decimals);
    return gap ? [`${label} adds up to ${formatUsd(shown, decimals)} instead of ${formatUsd(total, decimals)}`] : [];
  });
  if (gaps.length === 0) return null;
  const others = gaps.length - maxSums;
  const list = [...gaps.slice(0, maxSums), ...(others > 0 ? [`${others} more by as little`] : [])];
  return `Rows are rounded. As shown, ${new Intl.ListFormat("en-GB").format(list)}. Exact amounts are ${exact}.`;
}

/** Returns an amount as it is shown. An amount shown as less than the smallest one counts as zero. */
function readShown(amount: string, decimals: number): string {
  const shown = formatUsd(amount, decimals).replace(/[$,]/g, "").replace("−", "-");
  return /^[<>]/.test(shown) ? "0" : formatDecimal(parseDecimal(shown));
}
