import { CheckBox, Field, Select } from "../ui/field.tsx";
import type { FailedChange } from "./change-answer.ts";
import { fieldLabels, multiplierText } from "./model-preview.ts";
import type { ConsoleModel, ConsoleRoute } from "./models.ts";
import { count } from "./words.ts";

type Failed = FailedChange | undefined;

/** Renders a text field with the typed value, or else the current one. */
function ChangeField({
  name,
  value,
  failed,
  ...field
}: { name: keyof typeof fieldLabels; hint?: string; value?: string | number | null; failed: Failed } & Pick<
  Parameters<typeof Field>[0],
  "inputMode" | "list"
>) {
  return (
    <Field
      {...field}
      name={name}
      label={fieldLabels[name]}
      autoComplete="off"
      autoCapitalize="none"
      spellCheck={false}
      defaultValue={failed?.typed[name] ?? value ?? ""}
      error={failed?.fields[name]?.[0]}
    />
  );
}

function ChangeTick({
  name,
  value,
  failed,
  ...box
}: {
  name: keyof typeof fieldLabels;
  label?: string;
  hint?: string;
  value: boolean;
  failed: Failed;
}) {
  return (
    <CheckBox label={fieldLabels[name]} {...box} name={name} defaultChecked={failed ? name in failed.typed : value} />
  );
}

/** Renders the settings of a model. Its id and kind cannot be changed later. */
export function ModelFields({ model, failed }: { model: ConsoleModel; failed: Failed }) {
  const { id, kind, displayName, ownedBy, contextWindow, outputLimit, voices, studioDefault, isDefault } = model;
  return (
    <>
      {id === "" ? (
        <>
          <ChangeField name="id" hint="What callers send as model. It never changes." failed={failed} />
          <Select name="kind" label="Kind" defaultValue={failed?.typed.kind ?? kind}>
            <option value="chat">Chat</option>
            <option value="embedding">Embedding</option>
            <option value="speech">Speech</option>
          </Select>
        </>
      ) : null}
      <ChangeField name="displayName" value={displayName} failed={failed} />
      <ChangeField name="ownedBy" hint="Such as openai." value={ownedBy} failed={failed} />
      <ChangeField
        name="contextWindow"
        hint="Tokens. Limits the cost of the usage that a provider reports. Leave empty if unknown."
        inputMode="numeric"
        value={contextWindow}
        failed={failed}
      />
      <ChangeField
        name="outputLimit"
        hint="Tokens. A request that asks for more is refused. Leave empty if unknown."
        inputMode="numeric"
        value={outputLimit}
        failed={failed}
      />
      <ChangeField
        name="voices"
        hint="For speech models, separated by commas. The first is the default."
        value={voices.join(", ")}
        failed={failed}
      />
      <ChangeTick
        name="studioDefault"
        hint="If this is off, callers in all workspaces get 404, even with a grant."
        value={studioDefault}
        failed={failed}
      />
      {id === "" ? null : (
        <ChangeTick
          name="isDefault"
          label={`Default ${kind} model`}
          hint="Used by calls without a model: speech and the legacy endpoint."
          value={isDefault}
          failed={failed}
        />
      )}
    </>
  );
}

/** Renders the fields of a route: its provider, billing and time limits. */
export function RouteFields({
  model: { id, routes },
  route,
  failed,
}: {
  model: ConsoleModel;
  route: ConsoleRoute | null;
  failed: Failed;
}) {
  return (
    <>
      <ChangeField
        name="position"
        hint="1 is tried first. Leave empty to put it last."
        inputMode="numeric"
        value={route?.position ?? routes.length + 1}
        failed={failed}
      />
      <ChangeField
        name="providerId"
        hint="The ID of its settings in lower case: openai for AI_PROVIDER_OPENAI_KIND. Addresses and keys stay in the functions’ environment."
        value={route?.providerId ?? ""}
        failed={failed}
      />
      <ChangeField
        name="providerModel"
        hint="For Azure, the deployment name."
        value={route?.providerModel ?? id}
        failed={failed}
      />
      <ChangeTick name="enabled" value={route?.enabled ?? true} failed={failed} />
      <ChangeTick
        name="trustsStatedCost"
        hint="Charges the cost that the provider states. Prices still set the reservation."
        value={route?.trustsStatedCost ?? false}
        failed={failed}
      />
      <ChangeField
        name="tierMultipliers"
        hint="Multiples of the default prices for service tiers without prices of their own, such as flex 0.5, priority 2."
        value={multiplierText(route?.tierMultipliers ?? {})}
        failed={failed}
      />
      {(["firstByteSeconds", "idleSeconds", "totalSeconds"] as const).map((name) => (
        <ChangeField
          key={name}
          name={name}
          hint="Leave empty to use the provider’s setting."
          inputMode="numeric"
          value={route?.[name] ?? ""}
          failed={failed}
        />
      ))}
    </>
  );
}

/** Renders the field that chooses who gets the model: a plan that doesn't have it yet, or one workspace. */
export function GrantFields({ model: { plans }, failed }: { model: ConsoleModel; failed: Failed }) {
  return (
    <>
      <Select name="plan" label="Plan" defaultValue={failed?.typed.plan ?? ""}>
        <option value="">One workspace only</option>
        {plans
          .filter(({ granted }) => !granted)
          .map(({ id, name, workspaces }) => (
            <option key={id} value={id}>
              {name} ({id}): {count(workspaces, "workspace")}
            </option>
          ))}
      </Select>
      <ChangeField name="workspace" hint="Leave empty if you choose a plan." failed={failed} />
    </>
  );
}
