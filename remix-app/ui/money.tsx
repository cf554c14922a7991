import { exactUsd, formatCredits, formatUsd, formatUsdOf } from "./format-amount.ts";

/**
 * Dollars as people read them; the exact figure on hover, and for assistive technology.
 * @param props.amount exact decimal text; null where the workspace hides it
 * @param props.of the whole that it stands beside as a part
 */
export function Usd({ amount, of }: { amount: string | null; of?: string }) {
  const short = amount && (of === undefined ? formatUsd(amount) : formatUsdOf(amount, of));
  return amountOf({ short, exact: amount && exactUsd(amount) });
}

/**
 * Credits as people read them, without a unit; the exact figure on hover, and for assistive technology.
 * @param props.amount exact decimal text; null where there is none
 */
export function Credits({ amount }: { amount: string | null }) {
  return amountOf({ short: amount && formatCredits(amount), exact: amount });
}

function amountOf({ short, exact }: { short: string | null; exact: string | null }) {
  if (short === null || exact === null) {
    return (
      <span className="text-muted" title="Not shown">
        <span aria-hidden="true">–</span>
        <span className="sr-only">not shown</span>
      </span>
    );
  }
  return (
    <>
      <span aria-hidden="true" className="amount" title={exact}>
        {short}
      </span>
      <span className="sr-only">{exact}</span>
    </>
  );
}
