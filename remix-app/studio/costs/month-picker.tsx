import { useLocation } from "@remix-run/react";
import { monthText } from "../../http/date-text.ts";
import { Button } from "../../ui/button.tsx";
import { Select } from "../../ui/field.tsx";
import { pageParameters, searchWith } from "../range.ts";
import { type MonthChoice, shiftMonth } from "./month.ts";

/** The number of past months in the list. Earlier months are reached month by month. */
const monthsListed = 36;

/** Lets a person choose the page's month. The month is in the URL, and other parameters are kept. */
export function MonthPicker({ choice: { month, current, fault } }: { choice: MonthChoice }) {
  const { search } = useLocation();
  const listed = Array.from({ length: monthsListed }, (_, back) => shiftMonth(current, -back));
  const options = [...new Set([month, ...listed])].sort().reverse();
  const parameters = [...new URLSearchParams(search)].filter(
    ([name]) => name !== "month" && !pageParameters.includes(name),
  );
  const step = (to: string, label: string) => (
    <a href={searchWith(search, { month: to })} className="choice min-h-10">
      {label}
      <span className="sr-only">, {monthText(to)}</span>
    </a>
  );
  return (
    <div className="space-y-2">
      {fault ? (
        <p role="alert" className="text-bad text-small">
          {fault} Showing {monthText(month)} instead.
        </p>
      ) : null}
      <div className="flex flex-wrap items-center gap-2">
        {step(shiftMonth(month, -1), "Previous month")}
        <form className="flex items-center gap-2 max-sm:order-first max-sm:w-full">
          {parameters.map(([name, value]) => (
            <input key={`${name}=${value}`} type="hidden" name={name} value={value} />
          ))}
          {/* The key remounts the select when the month changes, because React applies defaultValue only on mount. */}
          <Select key={month} name="month" label="Month (UTC)" hideLabel defaultValue={month} className="max-sm:flex-1">
            {options.map((option) => (
              <option key={option} value={option}>
                {monthText(option)}
              </option>
            ))}
          </Select>
          <Button variant="secondary">Show</Button>
        </form>
        {month < current ? step(shiftMonth(month, 1), "Next month") : null}
      </div>
    </div>
  );
}
