import { CheckBox } from "../../ui/check-box.tsx";
import { Field } from "../../ui/field.tsx";
import { Select } from "../../ui/select.tsx";
import { TextArea } from "../../ui/text-area.tsx";
import { type FieldErrors, maxTemperature, outputTokens } from "./chat-form.ts";
import { Disclosure } from "./disclosure.tsx";
import type { PlaygroundModel } from "./list-models.ts";
import { ModelSelect } from "./model-select.tsx";

const toolExample = '[{"type":"function","function":{"name":"weather","parameters":{"type":"object",…}}}]';

interface ChatSettingsProps {
  models: readonly PlaygroundModel[];
  typed: Record<string, string>;
  errors: FieldErrors;
}

/** What an answer depends on beside what is said. */
export function ChatSettings({ models, typed, errors }: ChatSettingsProps) {
  return (
    <fieldset className="min-w-0 space-y-4">
      <legend className="sr-only">Settings</legend>
      <ModelSelect models={models} chosen={typed.model} />
      <TextArea id="system" name="system" label="System prompt" defaultValue={typed.system} />
      <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
        <Field
          id="temperature"
          name="temperature"
          label="Temperature"
          hint={`0 to ${maxTemperature}. Optional.`}
          inputMode="decimal"
          autoComplete="off"
          defaultValue={typed.temperature}
          errorId="temperature-error"
          errors={errors.temperature ? [errors.temperature] : undefined}
        />
        <Field
          id="maxOutputTokens"
          name="maxOutputTokens"
          label="Output limit"
          hint={`Tokens; ${outputTokens.default} if empty.`}
          inputMode="numeric"
          autoComplete="off"
          defaultValue={typed.maxOutputTokens}
          errorId="maxOutputTokens-error"
          errors={errors.maxOutputTokens ? [errors.maxOutputTokens] : undefined}
        />
      </div>
      <Select id="format" name="format" label="Answer" defaultValue={typed.format ?? "text"}>
        <option value="text">Text</option>
        <option value="json_object">JSON</option>
        <option value="json_schema">JSON by a schema</option>
      </Select>
      <Disclosure label="Schema of the answer" open={Boolean(errors.schema || typed.format === "json_schema")}>
        <TextArea
          id="schema"
          name="schema"
          label="JSON schema"
          hint="Used where the answer is JSON by a schema."
          mono
          rows={6}
          spellCheck={false}
          defaultValue={typed.schema ?? schemaExample}
          error={errors.schema}
        />
        <CheckBox id="strict" name="strict" label="Strict" defaultChecked={typed.strict === "on"} />
      </Disclosure>
      <Disclosure label="Tools" open={Boolean(errors.tools || typed.tools)}>
        <TextArea
          id="tools"
          name="tools"
          label="Tool definitions"
          hint={`A JSON array, such as ${toolExample}. You give the results. The gateway's own tools stand there by name: ["calculator", "current_time"].`}
          mono
          rows={6}
          spellCheck={false}
          defaultValue={typed.tools}
          error={errors.tools}
        />
      </Disclosure>
    </fieldset>
  );
}

const schemaExample = `{
  "type": "object",
  "properties": {
    "answer": { "type": "string" }
  },
  "required": ["answer"],
  "additionalProperties": false
}`;
