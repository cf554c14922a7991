import type { ReactNode } from "react";
import { type Change, fromNothing, manyTimes } from "./usage/overview-metric.ts";

export interface Figure {
  label: string;
  value: ReactNode;
  /** The change from the previous range. Omitted if there is nothing to compare with. */
  change?: Change | null;
  /** A few words below the figure, such as what it includes. */
  note?: ReactNode;
}

const looks = { up: "change change-up", down: "change change-down", same: "change change-same" } as const;
const comparisons = { up: "more than", down: "less than", same: "change from" } as const;

/** Shows a row of at most four figures, each with its change from the previous range. */
export function Figures({ figures }: { figures: readonly Figure[] }) {
  return (
    <dl className="grid grid-cols-1 gap-px overflow-hidden rounded-card border border-line bg-line min-[26rem]:grid-cols-2 lg:auto-cols-fr lg:grid-flow-col lg:grid-cols-none">
      {figures.map(({ label, value, change, note }) => (
        <div
          key={label}
          className="min-w-0 bg-surface p-4 min-[26rem]:last:odd:col-span-2 sm:p-5 lg:last:odd:col-span-1"
        >
          <dt className="text-muted">{label}</dt>
          <dd className="mt-1 flex flex-wrap items-baseline gap-x-2 tabular-nums">
            <span className="min-w-0 break-words font-semibold text-title">{value}</span>
            {change ? (
              <span className="text-muted text-small">
                <ChangeText change={change} />
              </span>
            ) : null}
          </dd>
          {note ? <dd className="mt-1 text-muted text-small tabular-nums">{note}</dd> : null}
        </div>
      ))}
    </dl>
  );
}

/**
 * Shows a change with an arrow, and as text for assistive technology. The arrow is drawn by the `change` class in
 * styles.css, because a table has dozens of arrows and drawing each one here would add two elements.
 */
export function ChangeText({ change: { direction, text } }: { change: Change }) {
  const compared = text === fromNothing ? "in" : text === manyTimes ? "as in" : comparisons[direction];
  return (
    <span className={looks[direction]} title="Compared with the previous range">
      {text}
      <span className="sr-only">{` ${compared} the previous range`}</span>
    </span>
  );
}
