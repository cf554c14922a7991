import { RelativeTime } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import type { Budget } from "./budgets.ts";

const fills = [
  { from: 100, fill: "fill-bad" },
  { from: 80, fill: "fill-warn" },
  { from: 0, fill: "fill-accent" },
] as const;

/** Shows a budget's usage as a bar and as text. */
export function BudgetMeter({ budget }: { budget: Budget }) {
  const { limitUsd, spentUsd, reservedUsd, remainingUsd, spentPercent, usedUp, enforced, warned } = budget;
  if (limitUsd === null) return <p className="text-muted">No budget.</p>;
  if (spentUsd === null) {
    return (
      <p>
        <Usd amount={limitUsd} /> a month <span className="text-muted">· spend is hidden by the AI policy</span>
      </p>
    );
  }
  const percent = spentPercent === null ? 100 : Number(spentPercent);
  const hasReservation = reservedUsd !== null && Number(reservedUsd) > 0;
  return (
    <div className="space-y-1.5 tabular-nums">
      <p>
        <Usd amount={spentUsd} of={limitUsd} /> of <Usd amount={limitUsd} />{" "}
        <span className="text-muted">
          {spentPercent === null ? "· no spending allowed" : `· ${spentPercent}% spent`} · <Usd amount={remainingUsd} />{" "}
          left
          {hasReservation ? (
            <>
              {" "}
              · <Usd amount={reservedUsd} /> reserved for requests in progress
            </>
          ) : null}
        </span>
      </p>
      <svg aria-hidden="true" className="h-2 w-full overflow-hidden rounded-full">
        <rect width="100%" height="100%" className="fill-sunken" />
        <rect
          width={`${Math.min(percent, 100)}%`}
          height="100%"
          className={usedUp ? "fill-bad" : fills.find(({ from }) => percent >= from)?.fill}
        />
      </svg>
      {usedUp ? <p className="text-bad text-small">{usedUpWords(budget)}</p> : null}
      {enforced ? null : <p className="text-muted text-small">Only warns, because no API key has this label.</p>}
      {warned ? (
        <p className="text-muted text-small">
          Alert emailed <RelativeTime at={warned.at} />: {alertReason(budget, warned.threshold)}
        </p>
      ) : null}
    </div>
  );
}

/**
 * Returns whether a budget is fully spent. A budget is used up even before that if too little is left for a request.
 */
const isSpent = ({ spentPercent }: Budget) => spentPercent !== null && Number(spentPercent) >= 100;

function usedUpWords(budget: Budget): string {
  const { scope, enforced } = budget;
  if (!enforced) return "Used up. Requests aren’t refused.";
  const keys = scope === "label" ? " by API keys with this label" : "";
  const end = "until the budget resets or you raise it.";
  return isSpent(budget)
    ? `Used up: requests${keys} are refused ${end}`
    : `Almost used up: what’s left is too little for some requests${keys}, so they’re refused ${end}`;
}

function alertReason(budget: Budget, threshold: number): string {
  if (threshold < 100) return `${threshold}% spent`;
  return budget.enforced && !isSpent(budget) ? "requests were refused" : "budget used up";
}
