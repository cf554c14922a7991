import { ChangeField } from "./change-fields.tsx";
import type { FailedChange } from "./failed-change.ts";
import type { ModelPrice } from "./models.ts";
import { priceLabels } from "./prices/price-source.ts";

/** What an amount is for, and what applies if it is left empty. */
export const priceHints = {
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
const amounts = Object.keys(priceHints) as (keyof typeof priceHints)[];

type Props = { template: ModelPrice | undefined; failed: FailedChange | undefined };

/** Renders the fields of a new price, prefilled from the newest price of the default tier. */
export function PriceFields({ template, failed }: Props) {
  return (
    <>
      <ChangeField
        name="from"
        type="datetime-local"
        label="Valid from (UTC)"
        hint="Leave empty to start when you confirm."
        failed={failed}
      />
      <ChangeField
        name="serviceTier"
        label="Service tier"
        hint="The name in the provider’s response, such as flex or priority. Leave empty for the default tier."
        failed={failed}
      />
      {amounts.map((name) => (
        <ChangeField
          key={name}
          name={name}
          value={template?.[name]}
          label={priceLabels[name]}
          hint={priceHints[name]}
          inputMode="decimal"
          failed={failed}
        />
      ))}
    </>
  );
}
