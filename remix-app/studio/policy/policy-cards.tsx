import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { CheckBox, Field } from "../../ui/field.tsx";
import type { PickerView } from "../model-choice/model-choices.ts";
import type { ModelOptions } from "../model-choice/model-options.ts";
import { DefaultSubmit, ModelPicker } from "../model-choice/model-picker.tsx";
import { ModelLimitFields } from "./model-limit-fields.tsx";
import type { PolicyFields } from "./policy-form.ts";
import { tokenLimitHint } from "./policy-words.ts";
import { RegionFields } from "./region-fields.tsx";

/** Renders the policy's form, one card per concern. */
export function PolicyCards({
  action,
  frame,
  models,
  modelIds,
  fields,
  errors,
  readAt,
}: {
  action: string;
  frame: Omit<ModelOptions, "models">;
  models: PickerView;
  /** The models that a limit may name. */
  modelIds: readonly string[];
  fields: Omit<PolicyFields, "choices">;
  errors: Record<string, string>;
  /** When the policy that the form shows was last changed. */
  readAt: string | null;
}) {
  const plan = (limit: number | null) =>
    limit === null
      ? "Leave empty for no limit."
      : `Leave empty for the plan’s limit of ${limit.toLocaleString("en")}. A higher limit has no effect.`;
  return (
    <AccountForm action={action} noValidate className="space-y-6">
      <DefaultSubmit>Save policy</DefaultSubmit>
      <ErrorSummary id="policy-error" fields={errors} />
      <input type="hidden" name="readAt" value={readAt ?? ""} />
      <Card
        title="Models"
        lead="These rules can only narrow what your plan allows. An API key can narrow them further."
      >
        <ModelPicker
          view={models}
          plan={frame.plan}
          legend="Allowed models"
          words={{
            all: "All models in your plan, including new ones",
            selected: "Only selected models",
          }}
          denies
          error={errors.models}
          formAction={`${action}#models`}
        />
      </Card>
      <Card
        title="Regions"
        lead="Where model providers may process this workspace’s requests. Requests for a model without a provider in a selected region are refused."
      >
        <RegionFields choice={fields.regions} error={errors.regions} />
      </Card>
      <Card
        title="Rate limits"
        lead="For all of this workspace’s requests combined. Requests over a limit are refused with HTTP 429."
      >
        <div className="max-w-108 space-y-5">
          <Field
            name="requestsPerMinute"
            label="Requests per minute"
            hint={plan(frame.requestsPerMinute)}
            inputMode="numeric"
            autoComplete="off"
            defaultValue={fields.requestsPerMinute}
            error={errors.requestsPerMinute}
          />
          <Field
            name="tokensPerMinute"
            label="Tokens per minute"
            hint={`${tokenLimitHint} ${plan(frame.tokensPerMinute)}`}
            inputMode="numeric"
            autoComplete="off"
            defaultValue={fields.tokensPerMinute}
            error={errors.tokensPerMinute}
          />
        </div>
        <div className="mt-6">
          <ModelLimitFields
            rows={fields.modelLimits}
            models={modelIds}
            errors={errors}
            formAction={`${action}#modelLimits`}
          />
        </div>
      </Card>
      <Card
        title="Content"
        lead="Usage and cost are always kept. Prompts and answers are kept only if you turn that on here."
      >
        <div className="max-w-160 space-y-5">
          <CheckBox
            name="contentCapture"
            label="Keep prompts and answers"
            hint="From the next request, we keep request bodies, answers, and the arguments and results of server tools. If a request is repeated with the same idempotency key, it gets the kept answer. Members who manage the AI policy can read what’s kept. Each view is recorded in the workspace’s activity."
            defaultChecked={fields.contentCapture}
          />
          <div className="max-w-108">
            <Field
              name="contentRetentionDays"
              label="Days to keep prompts and answers"
              hint="1 to 365. Older content is deleted within minutes. Turning off “Keep prompts and answers” deletes everything kept."
              inputMode="numeric"
              autoComplete="off"
              required
              defaultValue={fields.contentRetentionDays}
              error={errors.contentRetentionDays}
            />
          </div>
        </div>
      </Card>
      <Card title="Costs" lead="Credits are always shown.">
        <div className="max-w-160">
          <CheckBox
            name="providerCostVisible"
            label="Show members what providers charge"
            hint="Shows USD amounts in runs, usage, budgets and API responses. External apps always see provider costs. Imported costs and invoices stay visible to members either way."
            defaultChecked={fields.providerCostVisible}
          />
        </div>
      </Card>
      <Button name="intent" value="save">
        Save policy
      </Button>
    </AccountForm>
  );
}
