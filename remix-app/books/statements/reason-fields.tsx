import { addAmounts } from "#shared/decimal.ts";
import { openPointKinds, stateTexts } from "../../studio/costs/reconciliation.ts";
import { Field } from "../../ui/field.tsx";
import { formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { platformBook, providerPage } from "../book.ts";
import { openPointTexts, type PointGroup, type PointReason, reasonOf } from "./open-points.ts";
import { pointField, pointName, reasonField } from "./reason-form.ts";

/** Renders a field for each reason that the open points need, with reasons to choose from. */
export function ReasonFields({
  groups,
  month,
  reasons,
  errors,
}: {
  groups: readonly PointGroup[];
  month: string;
  reasons: readonly PointReason[];
  errors: Record<string, string>;
}) {
  return (
    <>
      {groups.map((group, index) => {
        const { kind, provider, points } = group;
        const field = reasonField(index);
        return (
          <fieldset
            key={pointName(group)}
            className="min-w-0 space-y-2 border-line border-t pt-4 first-of-type:border-0 first-of-type:pt-0"
          >
            <legend className="float-left w-full font-medium">
              <PointsLink group={group} month={month} />: {stateTexts[kind].name}
            </legend>
            <p className="clear-both text-muted">
              {openPointTexts[kind].meaning}:{" "}
              <Usd amount={points.map(({ amountUsd }) => amountUsd).reduce(addAmounts, "0")} />
              {provider === null ? " in total. The reason is for each of them." : null}
            </p>
            <input type="hidden" name={pointField(index)} value={pointName(group)} />
            <Field
              name={field}
              label="Reason"
              list={`${kind}-reasons`}
              defaultValue={reasonOf(group, reasons)}
              error={errors[field]}
              maxLength={500}
              required
              autoComplete="off"
            />
          </fieldset>
        );
      })}
      {openPointKinds
        .filter((kind) => groups.some((group) => group.kind === kind))
        .map((kind) => (
          <datalist key={kind} id={`${kind}-reasons`}>
            {openPointTexts[kind].suggestions.map((suggestion) => (
              <option key={suggestion} value={suggestion} />
            ))}
          </datalist>
        ))}
    </>
  );
}

/** Leads to a provider's month, or to the providers that need action. */
function PointsLink({ group: { provider, points }, month }: { group: PointGroup; month: string }) {
  if (provider !== null) {
    return (
      <a className="link break-all" href={providerPage({ month, provider })}>
        {provider}
      </a>
    );
  }
  return (
    <a className="link" href={`${platformBook.reconciliation}?month=${month}&show=action`}>
      {formatCount(points.length)} providers
    </a>
  );
}
