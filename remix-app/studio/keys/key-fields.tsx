import { CheckBox, Field } from "../../ui/field.tsx";
import type { PickerView } from "../model-choice/model-choices.ts";
import { ModelPicker } from "../model-choice/model-picker.tsx";
import { tokenLimitHint } from "../policy/policy-words.ts";

interface FieldText {
  name: string;
  label: string;
  hint?: string;
  type?: string;
  required?: boolean;
}

const mainFields: FieldText[] = [
  { name: "name", label: "Name", hint: "Such as the name of the app that will use it.", required: true },
  {
    name: "expiresOn",
    label: "Expires on",
    type: "date",
    hint: "Optional. The key stops working on this day at 00:00 UTC.",
  },
  { name: "monthlyBudgetUsd", label: "Monthly budget in USD", hint: "Optional. Requests beyond it are refused." },
];

const entityField: FieldText = {
  name: "entityId",
  label: "Entity label",
  hint: "Optional. Added to every request made with this key, such as customer:7. If the label has a budget, requests over that budget are refused. It can’t be changed later.",
};

const foldedFields: FieldText[] = [
  { name: "environment", label: "Environment", hint: "Optional. Such as production or staging." },
  { name: "requestsPerMinute", label: "Requests per minute", hint: "Optional." },
  { name: "tokensPerMinute", label: "Tokens per minute", hint: `Optional. ${tokenLimitHint}` },
  {
    name: "allowedAddresses",
    label: "Allowed IP addresses",
    hint: "Optional. IP addresses or CIDR ranges, separated by spaces. Requests from elsewhere are refused.",
  },
];

/** Renders the settings of a new or changed key. Most keys need only the first three, so the others are folded. */
export function KeyFields({
  values,
  errors,
  isNew,
  picker,
  plan,
  pickerAction,
}: {
  values: Record<string, string>;
  /** One message per field, by name. */
  errors: Record<string, string>;
  isNew: boolean;
  picker: PickerView;
  plan: string | null;
  /** Where searching for models sends the form. */
  pickerAction: string;
}) {
  const folded = isNew ? [entityField, ...foldedFields] : foldedFields;
  const isSet = ({ name }: FieldText) => Boolean(errors[name]) || !["", "production", undefined].includes(values[name]);
  const isOpen = picker.mode === "selected" || Boolean(errors.models) || values.strict === "on" || folded.some(isSet);
  const field = ({ name, ...text }: FieldText) => (
    <Field key={name} name={name} {...text} autoComplete="off" defaultValue={values[name]} error={errors[name]} />
  );
  return (
    <>
      {mainFields.map(field)}
      <details open={isOpen} className="rounded-card border border-line">
        <summary className="cursor-pointer rounded-card px-3 py-2.5 font-medium hover:bg-sunken">
          More settings
          <span className="block font-normal text-muted text-small">
            Models, rate limits, IP addresses, environment{isNew ? ", entity label" : ""} and strict mode
          </span>
        </summary>
        <div className="space-y-5 border-line border-t p-3">
          {folded.map(field)}
          <ModelPicker
            view={picker}
            plan={plan}
            legend="Allowed models"
            words={{ all: "All models of the workspace, including new ones", selected: "Only selected models" }}
            error={errors.models}
            formAction={pickerAction}
          />
          <CheckBox
            name="strict"
            label="Strict mode"
            hint="Refuse requests that use fields or tools the provider doesn’t support. If off, we drop those fields and tools and list them in the response."
            defaultChecked={values.strict === "on"}
          />
        </div>
      </details>
    </>
  );
}
