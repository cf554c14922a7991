import type { ProviderListing } from "#shared/provider-setup.ts";
import { Notice } from "../../ui/notice.tsx";
import { ChangeTick } from "../change-fields.tsx";
import { ChangeForm } from "../change-form.tsx";
import type { Confirmation } from "../confirmation.ts";
import type { FailedChange } from "../failed-change.ts";
import type { ConsoleModel } from "../models.ts";
import { describePlan } from "./fields.ts";
import { PricesFields } from "./price-fields.tsx";
import { RoutesFields } from "./route-fields.tsx";
import { SettingsFields } from "./settings-fields.tsx";
import type { TestResult } from "./test-call.ts";

interface SetupFormProps {
  model: ConsoleModel;
  /** Everything that is typed, and what is wrong with it. */
  shown: FailedChange;
  listing: ProviderListing | null;
  /** Why the providers can't be listed, if they can't. */
  gatewayFault: string | null;
  /** The hosts of the configured price files. */
  sources: readonly string[];
  /** Why callers couldn't use the model if it was saved like this and enabled. */
  faults: readonly string[];
  destroys: Confirmation | null;
  preview: readonly string[] | null;
  tests: readonly TestResult[];
  notes: Readonly<Record<string, string>>;
  lines: readonly string[];
}

/** Renders a whole model as one form. Its buttons show the form again, with everything that was typed. */
export function SetupForm({ model, shown, gatewayFault, faults, destroys, preview, ...parts }: SetupFormProps) {
  const isNew = model.id === "";
  const { typed } = shown;
  return (
    <ChangeForm
      effects={[
        "The model is saved with its routes, prices and grants together, or not at all.",
        isNew
          ? "Callers get 404 until the model is enabled and has a route, a price and a grant."
          : "New requests use what you save. Requests in progress aren’t affected.",
      ]}
      destroys={destroys}
      failed={shown}
      submit={isNew ? "Add model" : "Save changes"}
      cancelTo={isNew ? "/admin/models" : `/admin/models?${new URLSearchParams({ model: model.id })}`}
      hidden={{
        version: typed.version ?? "",
        defaultOfKind: typed.defaultOfKind ?? "",
        seenPlans: typed.seenPlans ?? "",
      }}
      preview={preview}
      wide
    >
      {/* Browsers press the first button of a form for the Enter key. This one changes nothing. */}
      <button name="intent" value="preview" className="sr-only" tabIndex={-1} aria-hidden="true" type="submit">
        Preview
      </button>
      <SettingsFields model={model} shown={shown} />
      {gatewayFault ? (
        <Notice tone="warn">
          <p>{gatewayFault} Providers can’t be listed. Enter their IDs.</p>
        </Notice>
      ) : null}
      <RoutesFields shown={shown} listing={parts.listing} tests={parts.tests} />
      <PricesFields shown={shown} notes={parts.notes} lines={parts.lines} sources={parts.sources} />
      <PlansFields model={model} shown={shown} />
      {model.enabled ? null : (
        <ChangeTick
          name="enabled"
          label="Enable model"
          hint={faults.length > 0 ? `Callers still get 404: ${faults.join(", ").toLowerCase()}.` : ""}
          value={false}
          failed={shown}
        />
      )}
    </ChangeForm>
  );
}

/** Renders a box for each plan. Plain markup keeps the page small with many plans. */
function PlansFields({ model, shown }: { model: ConsoleModel; shown: FailedChange }) {
  return (
    <fieldset className="space-y-2">
      <legend className="mb-2 font-semibold text-large">Plans</legend>
      <p className="text-muted">
        Workspaces on these plans can use the model.
        {model.id === "" ? null : " Grants to single workspaces are on the model’s page."}
      </p>
      {model.plans.length === 0 ? <p>No plans yet. Add one under Plans.</p> : null}
      <div className="grid gap-x-4 sm:grid-cols-2">
        {model.plans.map((plan) => {
          const name = `plan_${plan.id}`;
          const error = shown.fields[name]?.[0];
          return (
            <div key={plan.id}>
              <label className="flex cursor-pointer gap-2 py-1">
                <input
                  type="checkbox"
                  id={name}
                  name={name}
                  defaultChecked={name in shown.typed}
                  className="mt-0.5 size-4 shrink-0 accent-accent"
                />
                <span className="wrap-anywhere">{describePlan(plan)}</span>
              </label>
              {error ? <p className="text-bad text-small">{error}</p> : null}
            </div>
          );
        })}
      </div>
    </fieldset>
  );
}
