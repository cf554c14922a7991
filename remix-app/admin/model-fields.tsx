import type { ComponentProps } from "react";
import { Select } from "../ui/field.tsx";
import { ChangeField, ChangeTick } from "./change-fields.tsx";
import type { FailedChange } from "./failed-change.ts";
import { formatQuantity } from "./labels.ts";
import { fieldLabels, multiplierText } from "./model-preview.ts";
import type { ConsoleModel, ConsoleRoute } from "./models.ts";

type OptionalFailedChange = FailedChange | undefined;

type ModelFieldProps<Props> = Omit<Props, "name" | "label"> & { name: keyof typeof fieldLabels };

function ModelField({ name, ...field }: ModelFieldProps<ComponentProps<typeof ChangeField>>) {
  return <ChangeField autoCapitalize="none" spellCheck={false} {...field} name={name} label={fieldLabels[name]} />;
}

function ModelTick({ name, ...tick }: ModelFieldProps<ComponentProps<typeof ChangeTick>> & { label?: string }) {
  return <ChangeTick label={fieldLabels[name]} {...tick} name={name} />;
}

/** Renders the settings of a model. Its id and kind cannot be changed later. */
export function ModelFields({ model, failed }: { model: ConsoleModel; failed: OptionalFailedChange }) {
  const { id, kind, displayName, ownedBy, contextWindow, outputLimit, defaultOutputLimit } = model;
  const { voices, studioDefault, isDefault } = model;
  return (
    <>
      {id === "" ? (
        <>
          <ModelField name="id" hint="The value callers send as “model”. It can’t be changed later." failed={failed} />
          <Select name="kind" label="Kind" defaultValue={failed?.typed.kind ?? kind}>
            <option value="chat">Chat</option>
            <option value="embedding">Embedding</option>
            <option value="speech">Speech</option>
          </Select>
        </>
      ) : null}
      <ModelField name="displayName" value={displayName} failed={failed} />
      <ModelField name="ownedBy" hint="Such as openai." value={ownedBy} failed={failed} />
      <ModelField
        name="contextWindow"
        hint="In tokens. If a provider reports more tokens than this, the rest isn’t charged. Leave empty if unknown."
        inputMode="numeric"
        value={contextWindow}
        failed={failed}
      />
      <ModelField
        name="outputLimit"
        hint="In tokens. A request that asks for more is refused. Leave empty if unknown."
        inputMode="numeric"
        value={outputLimit}
        failed={failed}
      />
      <ModelField
        name="defaultOutputLimit"
        hint="In tokens, for chat models. A request that states no limit gets this one. Leave empty for the platform’s defaults."
        inputMode="numeric"
        value={defaultOutputLimit}
        failed={failed}
      />
      <ModelField
        name="voices"
        hint="For speech models, separated by commas. The first is the default."
        value={voices.join(", ")}
        failed={failed}
      />
      <ModelTick
        name="studioDefault"
        hint="If this is off, callers in all workspaces get 404, even with a grant."
        value={studioDefault}
        failed={failed}
      />
      {id === "" ? null : (
        <ModelTick
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
  failed: OptionalFailedChange;
}) {
  return (
    <>
      <ModelField
        name="position"
        hint="1 is tried first. Leave empty to put it last."
        inputMode="numeric"
        value={route?.position ?? routes.length + 1}
        failed={failed}
      />
      <ModelField
        name="providerId"
        hint="The <ID> in AI_PROVIDER_<ID>_KIND, in lower case: openai for AI_PROVIDER_OPENAI_KIND. The provider’s URL and key are set in the functions’ environment."
        value={route?.providerId ?? ""}
        failed={failed}
      />
      <ModelField
        name="providerModel"
        hint="For Azure, the deployment name."
        value={route?.providerModel ?? id}
        failed={failed}
      />
      <ModelTick name="enabled" value={route?.enabled ?? true} failed={failed} />
      <ModelTick
        name="trustsStatedCost"
        hint="Otherwise the cost is calculated from the prices. The prices always set how much is reserved for a request in progress."
        value={route?.trustsStatedCost ?? false}
        failed={failed}
      />
      <ModelField
        name="tierMultipliers"
        hint="For service tiers without their own prices: a factor for the default prices. For example, flex 0.5, priority 2."
        value={multiplierText(route?.tierMultipliers ?? {})}
        failed={failed}
      />
      {(["firstByteSeconds", "idleSeconds", "totalSeconds"] as const).map((name) => (
        <ModelField
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
export function GrantFields({ model: { plans }, failed }: { model: ConsoleModel; failed: OptionalFailedChange }) {
  return (
    <>
      <Select name="plan" label="Plan" defaultValue={failed?.typed.plan ?? ""}>
        <option value="">No plan: one workspace</option>
        {plans
          .filter(({ granted }) => !granted)
          .map(({ id, name, workspaces }) => (
            <option key={id} value={id}>
              {name} ({id}): {formatQuantity(workspaces, "workspace")}
            </option>
          ))}
      </Select>
      <ModelField name="workspace" hint="Leave empty if you choose a plan." failed={failed} />
    </>
  );
}
