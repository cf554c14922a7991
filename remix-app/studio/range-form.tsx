import { useLocation } from "@remix-run/react";
import { formatDay } from "../http/date-text.ts";
import { Button } from "../ui/button.tsx";
import { Field } from "../ui/field.tsx";
import { allTime, pageParameters, type Range, type RangePreset, rangeDays, searchWith } from "./range.ts";

const presets: { preset: RangePreset; label: string }[] = [
  { preset: "7d", label: "7 days" },
  { preset: "30d", label: "30 days" },
  { preset: "90d", label: "90 days" },
  { preset: "month", label: "This month" },
  { preset: "last-month", label: "Last month" },
  { preset: "365d", label: "365 days" },
];

const singleDays: typeof presets = [
  { preset: "today", label: "Today" },
  { preset: "yesterday", label: "Yesterday" },
];

/**
 * Lets a person choose the page's date range. The range is in the URL, and other parameters are kept.
 * @param props.optional whether the range may be empty, which then means all time; also offers single days
 */
export function RangeForm({ range, optional = false }: { range: Range | null; optional?: boolean }) {
  const { search } = useLocation();
  const days = range && rangeDays(range);
  // Keeps invalid values as typed.
  const typed = range?.fault ? new URLSearchParams(search) : null;
  const daysFault = typed?.get("range") ? null : range?.fault;
  const custom = range?.preset === "custom";
  const rangeFields = ["range", "from", "to", ...pageParameters];
  const otherParameters = [...new URLSearchParams(search)].filter(([name]) => !rangeFields.includes(name));
  return (
    <div className="flex flex-wrap items-start gap-2">
      <nav aria-label="Range, whole days in UTC" className="contents">
        {optional ? (
          <a
            href={searchWith(search, { range: allTime, from: "", to: "" })}
            aria-current={range === null ? "true" : undefined}
            className="choice"
          >
            All time
          </a>
        ) : null}
        {[...(optional ? singleDays : []), ...presets].map(({ preset, label }) => (
          <a
            key={preset}
            href={searchWith(search, { range: preset, from: "", to: "" })}
            aria-current={range?.preset === preset ? "true" : undefined}
            className="choice"
          >
            {label}
          </a>
        ))}
      </nav>
      <details className="open:w-full" open={custom || daysFault != null}>
        <summary className="choice cursor-pointer list-none" aria-current={custom ? "true" : undefined}>
          {custom && days ? `${formatDay(days.first)} to ${formatDay(days.last)} (UTC)` : "Custom range"}
        </summary>
        <form className="flex flex-wrap items-end gap-3 pt-3">
          {otherParameters.map(([name, value]) => (
            <input key={`${name}=${value}`} type="hidden" name={name} value={value} />
          ))}
          <Field
            id="range-from"
            name="from"
            type="date"
            label="First day (UTC)"
            defaultValue={typed?.get("from") ?? days?.first}
            error={daysFault}
          />
          <Field
            id="range-to"
            name="to"
            type="date"
            label="Last day (UTC)"
            defaultValue={typed?.get("to") ?? days?.last}
          />
          <Button variant="secondary">Show</Button>
        </form>
      </details>
      {days && !custom ? (
        <p className="w-full text-muted text-small" role={range.fault ? "alert" : undefined}>
          {range.fault && !daysFault ? `${range.fault} ` : ""}
          {range.fault ? "Showing " : ""}
          {`${formatDay(days.first)} to ${formatDay(days.last)} (UTC)`}
          {range.fault ? " instead." : ""}
        </p>
      ) : null}
    </div>
  );
}
