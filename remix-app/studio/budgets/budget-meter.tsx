import { countOf, formatCount } from "../../ui/format-amount.ts";
import { RelativeTime } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import type { Budget } from "./budget-schema.ts";
import { isUtcMonth, periodWords, resetWords } from "./budget-words.ts";

const fills = [
  { from: 100, fill: "fill-bad" },
  { from: 80, fill: "fill-warn" },
  { from: 0, fill: "fill-accent" },
] as const;

/** Shows a budget's usage as a bar and as text, with the window in which it counts. */
export function BudgetMeter({ budget }: { budget: Budget }) {
  const { period, limitUsd, spentUsd, reservedUsd, remainingUsd, spentPercent, usedUp, enforced, warned } = budget;
  if (period === "concurrent") return <ConcurrentMeter budget={budget} />;
  if (limitUsd === null) return <p className="text-muted">No budget.</p>;
  if (spentUsd === null) {
    return (
      <p>
        <Usd amount={limitUsd} />
        {` ${periodWords[period].rate}`}
        <span className="text-muted">{`${resetText(budget)} · spend is hidden by the AI policy`}</span>
      </p>
    );
  }
  const percent = spentPercent === null ? 100 : Number(spentPercent);
  const hasReservation = reservedUsd !== null && Number(reservedUsd) > 0;
  return (
    <div className="space-y-1.5 tabular-nums">
      <p>
        <Usd amount={spentUsd} of={limitUsd} /> of <Usd amount={limitUsd} />
        {` ${periodWords[period].current} `}
        <span className="text-muted">
          {spentPercent === null ? "· no spending allowed · " : `· ${spentPercent}% spent · `}
          <Usd amount={remainingUsd} />
          {` left${hasReservation ? " · " : ""}`}
          {hasReservation ? <Usd amount={reservedUsd} /> : null}
          {`${hasReservation ? " reserved for requests in progress" : ""}${resetText(budget)}`}
        </span>
      </p>
      <Bar percent={percent} fill={usedUp ? "fill-bad" : fills.find(({ from }) => percent >= from)?.fill} />
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

/** Says when a budget resets. The page itself says when the UTC month ends. */
function resetText(budget: Budget): string {
  const words = isUtcMonth(budget) ? null : resetWords(budget, new Date());
  return words === null ? "" : ` · ${words}`;
}

function ConcurrentMeter({ budget: { maxCalls, calls } }: { budget: Budget }) {
  if (maxCalls === null) return <p className="text-muted">No limit.</p>;
  const inProgress = calls ?? 0;
  const isReached = inProgress >= maxCalls;
  return (
    <div className="space-y-1.5 tabular-nums">
      <p>
        {formatCount(inProgress)} of {countOf(maxCalls, "concurrent call")} in progress
      </p>
      <Bar
        percent={maxCalls === 0 ? 100 : (inProgress * 100) / maxCalls}
        fill={isReached ? "fill-bad" : "fill-accent"}
      />
      {isReached ? (
        <p className="text-bad text-small">
          {maxCalls === 0
            ? "No calls are allowed until you raise the limit."
            : "At the limit: further calls are refused until one ends."}
        </p>
      ) : null}
    </div>
  );
}

function Bar({ percent, fill }: { percent: number; fill: string | undefined }) {
  return (
    <svg aria-hidden="true" className="h-2 w-full overflow-hidden rounded-full bg-sunken">
      <rect width={`${Math.min(percent, 100)}%`} height="100%" className={fill} />
    </svg>
  );
}

/**
 * Returns whether a budget is fully spent. A budget is used up even before that if too little is left for a request.
 */
const isSpent = ({ spentPercent }: Budget) => spentPercent !== null && Number(spentPercent) >= 100;

function usedUpWords(budget: Budget): string {
  const { scope, enforced, period } = budget;
  if (!enforced) return "Used up. Requests aren’t refused.";
  const keys = scope === "label" ? " by API keys with this label" : "";
  const end = period === "total" ? "until you raise it." : "until the budget resets or you raise it.";
  return isSpent(budget)
    ? `Used up: requests${keys} are refused ${end}`
    : `Almost used up: what’s left is too little for some requests${keys}, so they’re refused ${end}`;
}

function alertReason(budget: Budget, threshold: number): string {
  if (threshold < 100) return `${threshold}% spent`;
  return budget.enforced && !isSpent(budget) ? "requests were refused" : "budget used up";
}
