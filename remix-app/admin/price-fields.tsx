import { Field } from "../ui/field.tsx";
import type { FailedChange } from "./change-answer.ts";
import type { ModelPrice } from "./models.ts";

const amounts = [
  { name: "inputUsd", label: "Input", hint: "USD for a million tokens." },
  { name: "cachedInputUsd", label: "Cached input", hint: "Nothing: as input." },
  { name: "outputUsd", label: "Output", hint: "USD for a million tokens." },
  { name: "audioInputUsd", label: "Audio input", hint: "Nothing: audio is refused." },
  { name: "audioOutputUsd", label: "Audio output", hint: "Nothing: as output." },
] as const;

/** The fields of a new price, which begin at the newest one. */
export function PriceFields({ latest, failed }: { latest: ModelPrice | undefined; failed: FailedChange | undefined }) {
  return (
    <>
      <Field
        id="from"
        name="from"
        type="datetime-local"
        label="From when on (UTC)"
        hint="Nothing: from the moment you confirm."
        defaultValue={failed?.typed.from}
        errorId="from-error"
        errors={failed?.fields.from}
      />
      {amounts.map(({ name, label, hint }) => (
        <Field
          key={name}
          id={name}
          name={name}
          label={label}
          hint={hint}
          inputMode="decimal"
          autoComplete="off"
          defaultValue={failed?.typed[name] ?? latest?.[name] ?? ""}
          errorId={`${name}-error`}
          errors={failed?.fields[name]}
        />
      ))}
    </>
  );
}
