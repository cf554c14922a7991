import { Field } from "../../ui/field.tsx";
import { Usd } from "../../ui/money.tsx";
import { providerPage } from "../book.ts";
import { openPointTexts, pointField, pointName, reasonField, reasonOf } from "./open-points.ts";
import type { OpenPoint, PointReason } from "./statement.ts";

/** Renders a field for the reason of each open point, with reasons to choose from. */
export function ReasonFields({
  points,
  month,
  reasons,
  errors,
}: {
  points: readonly OpenPoint[];
  month: string;
  reasons: readonly PointReason[];
  errors: Record<string, string>;
}) {
  return points.map((point, index) => {
    const { provider, kind, amountUsd } = point;
    const { name, meaning, suggestions } = openPointTexts[kind];
    const field = reasonField(index);
    return (
      <fieldset
        key={pointName(point)}
        className="min-w-0 space-y-2 border-line border-t pt-4 first-of-type:border-0 first-of-type:pt-0"
      >
        <legend className="float-left w-full font-medium">
          <a className="link break-all" href={providerPage({ month, provider })}>
            {provider}
          </a>
          : {name}
        </legend>
        <p className="clear-both text-muted">
          {meaning}: <Usd amount={amountUsd} />
        </p>
        <input type="hidden" name={pointField(index)} value={pointName(point)} />
        <Field
          name={field}
          label="Reason"
          list={`${field}-list`}
          defaultValue={reasonOf(point, reasons)}
          error={errors[field]}
          maxLength={500}
          required
          autoComplete="off"
        />
        <datalist id={`${field}-list`}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      </fieldset>
    );
  });
}
