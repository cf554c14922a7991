import { countOf, formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import type { Envelope } from "./envelope-schema.ts";

/** Returns what a task limit is called: its label, otherwise whose calls it holds. */
export function envelopeName({ label, principal }: Pick<Envelope, "label" | "principal">): string {
  return label || principal.name || (principal.kind === "key" ? "Deleted API key" : "Former member");
}

/** Returns the part of a limit that is used, from 0 to 100. */
function percentOf(part: string | number | null, limit: string | number): number {
  if (part === null) return 0;
  return Number(limit) === 0 ? 100 : Math.min(100, (Number(part) / Number(limit)) * 100);
}

/** Shows what a task has used of its limit as a bar and as text. Reserved amounts have a lighter bar. */
export function EnvelopeMeter({ envelope }: { envelope: Envelope }) {
  const { limitUsd, spentUsd, reservedUsd, remainingUsd, calls, usedCalls, waiting, state } = envelope;
  const spent = percentOf(spentUsd, limitUsd);
  const reserved = Math.min(100 - spent, percentOf(reservedUsd, limitUsd));
  const hasReservation = reservedUsd !== null && Number(reservedUsd) > 0;
  const fill = state !== "open" ? "fill-muted" : waiting ? "fill-bad" : spent >= 80 ? "fill-warn" : "fill-accent";
  return (
    <div className="space-y-1.5 tabular-nums">
      {spentUsd === null ? (
        <p>
          <Usd amount={limitUsd} /> <span className="text-muted">limit · spend is hidden by the AI policy</span>
        </p>
      ) : (
        <>
          <p>
            <Usd amount={spentUsd} of={limitUsd} /> of <Usd amount={limitUsd} />{" "}
            <span className="text-muted">
              · <Usd amount={remainingUsd} /> left
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
            <rect x={`${spent}%`} width={`${reserved}%`} height="100%" className={fill} opacity="0.4" />
            <rect width={`${spent}%`} height="100%" className={fill} />
          </svg>
        </>
      )}
      <p className="text-muted text-small">
        {calls === null ? countOf(usedCalls, "request") : `${formatCount(usedCalls)} of ${countOf(calls, "request")}`}
      </p>
    </div>
  );
}
