import { CheckBox, Field, Select } from "../ui/field.tsx";
import type { FailedChange } from "./failed-change.ts";
import { count } from "./labels.ts";
import { fieldLabels, multiplierText } from "./model-preview.ts";
import type { ConsoleModel, ConsoleRoute } from "./models.ts";

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
  const { id, kind, displayName, ownedBy, contextWindow, outputLimit, defaultOutputLimit } = model;
  const { voices, studioDefault, isDefault } = model;
  return (
    <>
      {id === "" ? (
        <>
          <ChangeField name="id" hint="The value callers send as “model”. It can’t be changed later." failed={failed} />
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
        hint="In tokens. If a provider reports more tokens than this, the rest isn’t charged. Leave empty if unknown."
        inputMode="numeric"
        value={contextWindow}
        failed={failed}
      />
      <ChangeField
        name="outputLimit"
        hint="In tokens. A request that asks for more is refused. Leave empty if unknown."
        inputMode="numeric"
        value={outputLimit}
        failed={failed}
      />
      <ChangeField
        name="defaultOutputLimit"
        hint="In tokens, for chat models. A request that states no limit gets this one. Leave empty for the platform’s defaults."
        inputMode="numeric"
        value={defaultOutputLimit}
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
          hint="Used if a request names no model, which only the speech and legacy endpoints allow."
          value={isDefault}
          failed={failed}
        />
      )}
    </>
  );
}

/** Renders the fields of a route: its provider, billing and timeouts. */
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
        hint="The <ID> in AI_PROVIDER_<ID>_KIND, in lower case: openai for AI_PROVIDER_OPENAI_KIND. The provider’s URL and key are set in the functions’ environment."
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
        hint="Otherwise the cost is calculated from the prices. The prices always set how much is reserved for a request in progress."
        value={route?.trustsStatedCost ?? false}
        failed={failed}
      />
      <ChangeField
        name="tierMultipliers"
        hint="For service tiers without their own prices: a factor for the default prices. For example, flex 0.5, priority 2."
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
        <option value="">No plan: one workspace</option>
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
