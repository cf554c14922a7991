import { formatCount } from "../../ui/format-amount.ts";
import { Notice } from "../../ui/notice.tsx";
import { searchWith } from "../range.ts";
import { maxScannedRuns, type RunSort } from "./run-schema.ts";

const orders: { sort: RunSort; label: string }[] = [
  { sort: "time", label: "Newest" },
  { sort: "cost", label: "Cost" },
  { sort: "tokens", label: "Tokens" },
  { sort: "latency", label: "Latency" },
];

/**
 * Links to the orders of a list of runs. Runs whose cost is hidden are sorted by their credits. If the range has too many runs for the requested order, says so, and links to
 * narrower ranges.
 * @param props.sort the order of the list
 * @param props.requested the order in the URL
 */
export function RunOrder({
  search,
  sort,
  requested,
  costVisible,
}: {
  search: string;
  sort: RunSort;
  requested: RunSort;
  costVisible: boolean;
}) {
  const nameOf = ({ sort: order, label }: (typeof orders)[number]) =>
    order === "cost" && !costVisible ? "Credits" : label;
  const ranges = [
    ["today", "Today"],
    ["yesterday", "Yesterday"],
    ["7d", "7 days"],
  ] as const;
  return (
    <>
      <nav aria-label="Sort by" className="flex flex-wrap items-center gap-2">
        <span aria-hidden="true" className="text-muted">
          Sort by
        </span>
        {orders.map((order) => (
          <a
            key={order.sort}
            href={searchWith(search, { sort: order.sort === "time" ? "" : order.sort })}
            aria-current={order.sort === sort ? "true" : undefined}
            className="choice"
          >
            {nameOf(order)}
          </a>
        ))}
      </nav>
      {sort === requested ? null : (
        <Notice tone="warn">
          More than {formatCount(maxScannedRuns)} runs in this range: narrow it to sort by {requested}. The newest runs
          are shown first.
          <span className="mt-1 flex flex-wrap gap-x-4 gap-y-1">
            {ranges.map(([range, label]) => (
              <a key={range} className="link" href={searchWith(search, { range, from: "", to: "" })}>
                {label}
              </a>
            ))}
          </span>
        </Notice>
      )}
    </>
  );
}
