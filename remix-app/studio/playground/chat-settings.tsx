import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { CheckBox, Field, Select, TextArea } from "../../ui/field.tsx";
import { type FieldErrors, maxTemperature, outputTokens } from "./chat-form.ts";
import type { PlaygroundModel } from "./list-models.ts";
import { ModelSelect } from "./panel-parts.tsx";

const toolExample = '[{"type":"function","function":{"name":"weather","parameters":{"type":"object",…}}}]';

interface ChatSettingsProps {
  models: readonly PlaygroundModel[];
  typed: Record<string, string>;
  errors: FieldErrors;
}

export function ChatSettings({ models, typed, errors }: ChatSettingsProps) {
  return (
    <fieldset className="min-w-0 space-y-4">
      <legend className="sr-only">Settings</legend>
      <ModelSelect models={models} chosen={typed.model} />
      <TextArea name="system" label="System prompt" defaultValue={typed.system} />
      <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
        <Field
          name="temperature"
          label="Temperature"
          hint={`0 to ${maxTemperature}. Optional.`}
          inputMode="decimal"
          autoComplete="off"
          defaultValue={typed.temperature}
          error={errors.temperature}
        />
        <Field
          name="maxOutputTokens"
          label="Output limit"
          hint={`Tokens. Default: ${outputTokens.default}.`}
          inputMode="numeric"
          autoComplete="off"
          defaultValue={typed.maxOutputTokens}
          error={errors.maxOutputTokens}
        />
      </div>
      <Select name="format" label="Answer format" defaultValue={typed.format ?? "text"}>
        <option value="text">Text</option>
        <option value="json_object">JSON</option>
        <option value="json_schema">JSON by schema</option>
      </Select>
      <Disclosure label="Answer schema" open={Boolean(errors.schema || typed.format === "json_schema")}>
        <TextArea
          name="schema"
          label="JSON schema"
          hint="Used when the answer format is “JSON by schema”."
          mono
          rows={6}
          spellCheck={false}
          defaultValue={typed.schema ?? schemaExample}
          error={errors.schema}
        />
        <CheckBox name="strict" label="Strict" defaultChecked={typed.strict === "on"} />
      </Disclosure>
      <Disclosure label="Tools" open={Boolean(errors.tools || typed.tools)}>
        <TextArea
          name="tools"
          label="Tool definitions"
          hint={`A JSON array, such as ${toolExample}. You provide the results. To use the gateway’s own tools, name them: ["calculator", "current_time"].`}
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

/** Hides rarely needed settings. Opens when `open` becomes true, and closes only when the person closes it. */
function Disclosure({ label, open, children }: { label: string; open: boolean; children: ReactNode }) {
  const [shown, setShown] = useState(open);
  useEffect(() => {
    if (open) setShown(true);
  }, [open]);
  return (
    <details open={shown} onToggle={({ currentTarget }) => setShown(currentTarget.open)} className="group space-y-3">
      <summary className="flex min-h-6 cursor-pointer items-center gap-1.5 rounded-button font-medium">
        <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted group-open:rotate-90" />
        {label}
      </summary>
      {children}
    </details>
  );
}
