import { Field } from "../ui/field.tsx";
import type { FailedChange } from "./failed-change.ts";
import type { ModelPrice } from "./models.ts";
import { priceLabels } from "./prices/price-source.ts";

const hints = {
  inputUsd: "USD per million tokens.",
  cachedInputUsd: "Leave empty to use the input price.",
  cacheWriteUsd: "Leave empty to use the input price.",
  cacheWrite1hUsd: "Leave empty to use the cache write price.",
  outputUsd: "USD per million tokens.",
  audioInputUsd: "Leave empty to refuse audio.",
  audioOutputUsd: "Leave empty to use the output price.",
  imageInputUsd: "Leave empty to use the input price.",
  requestFeeUsd: "USD for each request with a fee, such as a web search. Leave empty if the provider charges no fee.",
} as const;
const amounts = Object.keys(hints) as (keyof typeof hints)[];

type Props = { template: ModelPrice | undefined; failed: FailedChange | undefined };

/** Renders the fields of a new price, prefilled from the newest price of the default tier. */
export function PriceFields({ template, failed }: Props) {
  return (
    <>
      <Field
        name="from"
        type="datetime-local"
        label="Valid from (UTC)"
        hint="Leave empty to start when you confirm."
        defaultValue={failed?.typed.from}
        error={failed?.fields.from?.[0]}
      />
      <Field
        name="serviceTier"
        label="Service tier"
        hint="The name in the provider’s response, such as flex or priority. Leave empty for the default tier."
        autoComplete="off"
        defaultValue={failed?.typed.serviceTier}
        error={failed?.fields.serviceTier?.[0]}
      />
      {amounts.map((name) => (
        <Field
          key={name}
          name={name}
          label={priceLabels[name]}
          hint={hints[name]}
          inputMode="decimal"
          autoComplete="off"
          defaultValue={failed?.typed[name] ?? template?.[name] ?? ""}
          error={failed?.fields[name]?.[0]}
        />
      ))}
    </>
  );
}
