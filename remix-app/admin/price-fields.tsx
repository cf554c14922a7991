import { Field } from "../ui/field.tsx";
import type { FailedChange } from "./change-answer.ts";
import type { ModelPrice } from "./models.ts";

const amounts = [
  { name: "inputUsd", label: "Input", hint: "USD for a million tokens." },
  { name: "cachedInputUsd", label: "Cached input", hint: "Empty: same as input." },
  { name: "cacheWriteUsd", label: "Cache write", hint: "Empty: same as input." },
  { name: "cacheWrite1hUsd", label: "Cache write for an hour", hint: "Empty: same as other cache writes." },
  { name: "outputUsd", label: "Output", hint: "USD for a million tokens." },
  { name: "audioInputUsd", label: "Audio input", hint: "Empty: audio is refused." },
  { name: "audioOutputUsd", label: "Audio output", hint: "Empty: same as output." },
  { name: "imageInputUsd", label: "Image input", hint: "Empty: same as input." },
  {
    name: "requestFeeUsd",
    label: "Fee",
    hint: "USD for each request that the provider charges a fee for. Empty: none.",
  },
] as const;

type Props = { template: ModelPrice | undefined; failed: FailedChange | undefined };

/** The fields of a new price, filled in from the newest one of the default tier. */
export function PriceFields({ template, failed }: Props) {
  return (
    <>
      <Field
        name="from"
        type="datetime-local"
        label="Valid from (UTC)"
        hint="Empty: from the moment you confirm."
        defaultValue={failed?.typed.from}
        error={failed?.fields.from?.[0]}
      />
      <Field
        name="serviceTier"
        label="Service tier"
        hint="As the provider's answer names it, such as flex or priority. Empty: the default tier."
        autoComplete="off"
        defaultValue={failed?.typed.serviceTier}
        error={failed?.fields.serviceTier?.[0]}
      />
      {amounts.map(({ name, label, hint }) => (
        <Field
          key={name}
          name={name}
          label={label}
          hint={hint}
          inputMode="decimal"
          autoComplete="off"
          defaultValue={failed?.typed[name] ?? template?.[name] ?? ""}
          error={failed?.fields[name]?.[0]}
        />
      ))}
    </>
  );
}
