import { Field, Select } from "../ui/field.tsx";
import type { FailedChange } from "./failed-change.ts";
import { type Plan, payerLabels } from "./plans.ts";

type Props = { plan: Plan | null; failed: FailedChange | undefined };

/** Renders the fields of a plan, or of a new plan if none is given. */
export function PlanFields({ plan, failed }: Props) {
  const fieldOf = (name: string, initial: string | number | null | undefined) => ({
    name,
    autoComplete: "off",
    defaultValue: failed?.typed[name] ?? initial ?? "",
    error: failed?.fields[name]?.[0],
  });
  return (
    <>
      {plan ? null : (
        <Field
          {...fieldOf("plan", "")}
          label="ID"
          hint="1 to 32 characters: a–z, 0–9 and _. It can’t be changed later."
          autoCapitalize="none"
          spellCheck={false}
          required
        />
      )}
      <Field {...fieldOf("name", plan?.name)} label="Name" maxLength={80} required />
      {plan?.payerFixed ? (
        <>
          <input type="hidden" name="payer" value={plan.payer} />
          <p>
            Requests are paid by: {payerLabels[plan.payer]}. You can’t change this, because credit accounts already use
            this plan.
          </p>
        </>
      ) : (
        <Select
          name="payer"
          label="Requests are paid by"
          defaultValue={failed?.typed.payer ?? plan?.payer ?? "workspace"}
        >
          <option value="workspace">{payerLabels.workspace}</option>
          <option value="member">{payerLabels.member}</option>
        </Select>
      )}
      <Field
        {...fieldOf("markup", plan?.markup ?? "1")}
        label="Markup"
        hint="Credits per request = provider cost in USD × 10,000 × markup."
        inputMode="decimal"
        required
      />
      <Field
        {...fieldOf("initialCredits", plan?.initialCredits ?? "0")}
        label="Initial credits"
        hint="Granted once, when a workspace or member gets its credit account."
        inputMode="decimal"
        required
      />
      <Field
        {...fieldOf("lowCredits", plan?.lowCredits)}
        label="Warn below"
        hint="Warns when a balance falls below this many credits. Leave empty for a tenth of the initial credits, or 10,000 if there are none. 0 turns the warning off."
        inputMode="decimal"
      />
      <Field
        {...fieldOf("requestsPerMinute", plan?.requestsPerMinute)}
        label="Requests per minute"
        hint="Per workspace. Leave empty for no limit."
        inputMode="numeric"
      />
      <Field
        {...fieldOf("tokensPerMinute", plan?.tokensPerMinute)}
        label="Tokens per minute"
        hint="Per workspace. Leave empty for no limit."
        inputMode="numeric"
      />
    </>
  );
}
