import type { ComponentProps } from "react";
import { Select } from "../../ui/field.tsx";
import { ChangeField, ChangeTick } from "../change-fields.tsx";
import type { FailedChange } from "../failed-change.ts";
import { fieldLabels } from "../model-preview.ts";
import type { ConsoleModel } from "../models.ts";
import { fieldsOf } from "./fields.ts";

type Labelled<Props> = Omit<Props, "name" | "label" | "value"> & { name: keyof typeof fieldLabels };

function SettingField({ name, ...field }: Labelled<ComponentProps<typeof ChangeField>>) {
  return <ChangeField autoCapitalize="none" spellCheck={false} {...field} name={name} label={fieldLabels[name]} />;
}

/** Renders the settings of a model. Its id and kind cannot be changed later. */
export function SettingsFields({ model, shown }: { model: ConsoleModel; shown: FailedChange }) {
  return (
    <>
      <div className="grid items-end gap-4 sm:grid-cols-2">
        {model.id === "" ? (
          <>
            <SettingField name="id" hint="What callers send as “model”." failed={shown} />
            <Select
              name="kind"
              label="Kind"
              hint="ID and kind can’t be changed later."
              defaultValue={shown.typed.kind}
              error={shown.fields.kind?.[0]}
            >
              <option value="chat">Chat</option>
              <option value="embedding">Embedding</option>
              <option value="speech">Speech</option>
            </Select>
          </>
        ) : null}
        <SettingField name="displayName" hint="Shown to people." failed={shown} />
        <SettingField name="ownedBy" hint="Such as openai." failed={shown} />
      </div>
      <FurtherSettings model={model} shown={shown} />
    </>
  );
}

const furtherFields = [
  "contextWindow",
  "outputLimit",
  "defaultOutputLimit",
  "voices",
  "studioDefault",
  "isDefault",
] as const;

/** Renders the settings that most models leave as they are. Shows them if one is changed or invalid. */
function FurtherSettings({ model, shown }: { model: ConsoleModel; shown: FailedChange }) {
  const saved = fieldsOf(model);
  const isOpen = furtherFields.some(
    (name) => name in shown.fields || (shown.typed[name] ?? "") !== (saved[name] ?? ""),
  );
  return (
    <details className="rounded-card border border-line" open={isOpen}>
      <summary className="cursor-pointer rounded-card px-4 py-2.5 font-medium">Limits and other settings</summary>
      <div className="space-y-4 px-4 pt-1 pb-4">
        <div className="grid items-end gap-4 sm:grid-cols-2">
          <SettingField
            name="contextWindow"
            hint="In tokens. Tokens beyond it aren’t charged. Leave empty if unknown."
            inputMode="numeric"
            failed={shown}
          />
          <SettingField
            name="outputLimit"
            hint="In tokens. A request for more is refused. Leave empty if unknown."
            inputMode="numeric"
            failed={shown}
          />
          <SettingField
            name="defaultOutputLimit"
            hint="In tokens, for chat requests without a limit. Leave empty for the platform’s default."
            inputMode="numeric"
            failed={shown}
          />
          <SettingField
            name="voices"
            hint="For speech models, separated by commas, the default first."
            failed={shown}
          />
        </div>
        <ChangeTick
          name="studioDefault"
          label={fieldLabels.studioDefault}
          hint="If this is off, callers in all workspaces get 404, even with a grant."
          value={false}
          failed={shown}
        />
        {model.id === "" ? null : (
          <ChangeTick
            name="isDefault"
            label={`Default ${model.kind} model`}
            hint="Used if a request names no model, which only the speech and legacy endpoints allow."
            value={false}
            failed={shown}
          />
        )}
      </div>
    </details>
  );
}
