import { Select } from "../ui/field.tsx";
import { ChangeField } from "./change-fields.tsx";
import type { FailedChange } from "./failed-change.ts";
import { type Plan, payerLabels } from "./plans.ts";

type Props = { plan: Plan | null; failed: FailedChange | undefined };

/** Renders the fields of a plan, or of a new plan if none is given. */
export function PlanFields({ plan, failed }: Props) {
  return (
    <>
      {plan ? null : (
        <ChangeField
          name="plan"
          failed={failed}
          label="ID"
          hint="1 to 32 characters: a–z, 0–9 and _. It can’t be changed later."
          autoCapitalize="none"
          spellCheck={false}
          required
        />
      )}
      <ChangeField name="name" value={plan?.name} label="Name" maxLength={80} required failed={failed} />
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
      <ChangeField
        name="markup"
        value={plan?.markup ?? "1"}
        failed={failed}
        label="Markup"
        hint="Credits per request = provider cost in USD × 10,000 × markup."
        inputMode="decimal"
        required
      />
      <ChangeField
        name="initialCredits"
        value={plan?.initialCredits ?? "0"}
        failed={failed}
        label="Initial credits"
        hint="Granted once, when a workspace or member gets its credit account."
        inputMode="decimal"
        required
      />
      <ChangeField
        name="lowCredits"
        value={plan?.lowCredits}
        failed={failed}
        label="Warn below"
        hint="Warns when a balance falls below this many credits. Leave empty for a tenth of the initial credits, or 10,000 if there are none. 0 turns the warning off."
        inputMode="decimal"
      />
      <ChangeField
        name="requestsPerMinute"
        value={plan?.requestsPerMinute}
        failed={failed}
        label="Requests per minute"
        hint="Per workspace. Leave empty for no limit."
        inputMode="numeric"
      />
      <ChangeField
        name="tokensPerMinute"
        value={plan?.tokensPerMinute}
        failed={failed}
        label="Tokens per minute"
        hint="Per workspace. Leave empty for no limit."
        inputMode="numeric"
      />
    </>
  );
}
