import { parseExactJson } from "#shared/exact-json.ts";
import { isLiteLlm, readLiteLlm } from "./litellm.ts";
import { modelsDevProviders, readModelsDev } from "./models-dev.ts";
import { isRecord, type PriceSource, UnreadablePrices } from "./price-source.ts";

/** A file of models.dev or LiteLLM has a few million bytes. */
export const mostSourceBytes = 8 * 1024 * 1024;
export const mostSourceText = "8 MiB";

export type PriceFile = { from: string; text: string };

/** Reads a price file of models.dev or LiteLLM, which it tells apart by their shape. Amounts keep their digits. */
function readPriceSource({ from, text }: PriceFile, wanted: ReadonlySet<string>): PriceSource {
  let file: unknown;
  try {
    file = parseExactJson(text);
  } catch {
    throw new UnreadablePrices(
      `${from} is not JSON. Use models.dev's api.json or LiteLLM's model_prices_and_context_window.json.`,
    );
  }
  const record = isRecord(file) ? file : {};
  const providers = modelsDevProviders(record);
  if (providers) return { name: "models.dev", models: readModelsDev(providers, wanted) };
  if (isLiteLlm(record)) return { name: "LiteLLM", models: readLiteLlm(record, wanted) };
  throw new UnreadablePrices(
    `${from} has no prices in a known form. Use models.dev's api.json or LiteLLM's model_prices_and_context_window.json.`,
  );
}

/**
 * Reads one or two price files. Two are of different projects, so that they can be compared.
 * @param routes whose models are read
 * @throws UnreadablePrices
 */
export function readPriceSources(
  files: readonly PriceFile[],
  routes: readonly { providerModel: string }[],
): PriceSource[] {
  const wanted = new Set(routes.map(({ providerModel }) => providerModel));
  const sources = files.map((file) => readPriceSource(file, wanted));
  const [first, second] = sources;
  if (first && first.name === second?.name) {
    throw new UnreadablePrices(`Both files are from ${first.name}. Choose one of models.dev and one of LiteLLM.`);
  }
  return sources;
}
