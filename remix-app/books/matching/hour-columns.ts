import type { CsvColumn } from "../../http/csv.ts";
import type { Counts, HourLine } from "./hours.ts";

const counts = [
  ["requests", "requests"],
  ["inputTokens", "input_tokens"],
  ["cachedInputTokens", "cached_input_tokens"],
  ["cacheWriteTokens", "cache_write_tokens"],
  ["outputTokens", "output_tokens"],
] as const satisfies readonly (readonly [keyof Counts, string])[];

/** CSV columns of a provider's hours. `provider_` columns leave out keys that aren't the gateway's. */
export const hourColumns: readonly CsvColumn<HourLine>[] = [
  { name: "hour", value: ({ hour }) => hour },
  { name: "model", value: ({ model }) => model },
  { name: "calls", value: ({ calls }) => calls },
  ...counts.flatMap(([count, name]): CsvColumn<HourLine>[] => [
    { name: `provider_${name}`, value: ({ stated }) => stated[count] },
    { name: `metered_${name}`, value: ({ metered }) => metered[count] },
  ]),
  {
    name: "keys",
    value: ({ keys }) =>
      keys
        .map(({ keyId, model, inputTokens, outputTokens }) => `${keyId ?? "-"} ${model} ${inputTokens} ${outputTokens}`)
        .join("; "),
  },
];
