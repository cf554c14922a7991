import { formatExactUsd, formatUsd, typesetMinus } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { formatPercent } from "./difference.ts";
import { isBelowHalfCent } from "./reconciliation.ts";

/**
 * Shows a difference in dollars and in percent. The exact values are available on hover and to assistive technology.
 * @param props.decimals the number of decimals of all amounts in the column
 */
export function DifferenceText({
  usd,
  percent,
  decimals,
}: {
  usd: string | null;
  percent: string | null;
  decimals?: number;
}) {
  return (
    <>
      <Usd amount={usd} decimals={decimals} />
      {percent === null ? null : (
        <>
          {" "}
          <span className="whitespace-nowrap text-muted text-small" title={`${typesetMinus(percent)}%`}>
            <span aria-hidden="true">{formatPercent(percent)}</span>
            <span className="sr-only">{typesetMinus(percent)} percent</span>
          </span>
        </>
      )}
    </>
  );
}

/**
 * Shows a difference that rounds to zero as zero. The exact difference is available on hover, to assistive technology
 * and in the CSV.
 */
export function RoundedDifference({
  usd,
  percent,
  decimals,
}: {
  usd: string | null;
  percent: string | null;
  decimals: number;
}) {
  if (usd === null || !isBelowHalfCent(usd)) return <DifferenceText usd={usd} percent={percent} decimals={decimals} />;
  return (
    <>
      <span aria-hidden="true" className="amount" title={formatExactUsd(usd)}>
        {formatUsd("0", decimals)}
      </span>
      <span className="sr-only">{formatExactUsd(usd)}</span>
    </>
  );
}

/** Stands for an amount of which nothing is recorded. */
export function Missing() {
  return <Dash title="Nothing is recorded here" text="none" />;
}

/** Stands for the difference of amounts that can't be compared. */
export function Incomparable() {
  return <Dash title="There is nothing to compare on this line" text="not compared" />;
}

/** Stands for an amount that isn't shown, with the reason on hover and for assistive technology. */
export function Dash({ title, text }: { title: string; text: string }) {
  return (
    <span className="text-muted" title={title}>
      <span aria-hidden="true">–</span>
      <span className="sr-only">{text}</span>
    </span>
  );
}
