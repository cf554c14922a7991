import { formatCredits, formatExactUsd, formatUsd, formatUsdPart, typesetMinus } from "./format-amount.ts";

/**
 * Shows dollars, with the exact amount on hover and for assistive technology.
 * @param props.amount exact decimal string; null if the workspace hides it
 * @param props.of the total, if the amount is shown as a part of a total
 * @param props.decimals the number of decimals of all amounts in the column
 * @param props.isUnknown whether the amount is unknown, so that a recorded 0 doesn't mean that the call was free
 */
export function Usd(props: { amount: string | null; of?: string; decimals?: number; isUnknown?: boolean }) {
  const { amount, of, decimals, isUnknown = false } = props;
  if (isUnknown && amount !== null) return noAmount("Unknown");
  const short = amount && (of === undefined ? formatUsd(amount, decimals) : formatUsdPart(amount, of));
  return renderAmount({ short, exact: amount && formatExactUsd(amount) });
}

/**
 * Shows credits without a unit, with the exact amount on hover and for assistive technology.
 * @param props.amount exact decimal string; null if the amount is unknown
 * @param props.decimals the number of decimals of all amounts in the column
 */
export function Credits({ amount, decimals }: { amount: string | null; decimals?: number }) {
  return renderAmount({ short: amount && formatCredits(amount, decimals), exact: amount && typesetMinus(amount) });
}

function renderAmount({ short, exact }: { short: string | null; exact: string | null }) {
  if (short === null || exact === null) return noAmount("Not shown");
  if (short === exact) {
    return (
      <span className="amount" title={exact}>
        {short}
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

function noAmount(reason: string) {
  return (
    <span className="text-muted" title={reason}>
      <span aria-hidden="true">–</span>
      <span className="sr-only">{reason.toLowerCase()}</span>
    </span>
  );
}
