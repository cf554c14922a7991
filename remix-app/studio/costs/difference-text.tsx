import { Usd } from "../../ui/money.tsx";
import { formatPercent } from "./difference.ts";

/** A difference in dollars and percent, each to the last digit on hover and for assistive technology. */
export function DifferenceText({ usd, percent }: { usd: string | null; percent: string | null }) {
  return (
    <>
      <Usd amount={usd} />
      {percent === null ? null : (
        <>
          {" "}
          <span className="whitespace-nowrap text-muted text-small" title={`${percent}%`}>
            <span aria-hidden="true">{formatPercent(percent)}</span>
            <span className="sr-only">{percent} percent</span>
          </span>
        </>
      )}
    </>
  );
}
