import { parseExactJson } from "#shared/exact-json.ts";
import { isLiteLlm, readLiteLlm } from "./litellm.ts";
import { modelsDevProviders, readModelsDev } from "./models-dev.ts";
import { isRecord, type PriceSource, type SourceModel, UnreadablePrices } from "./price-source.ts";

/** The files of models.dev and LiteLLM have a few million bytes. */
export const maxSourceBytes = 8 * 1024 * 1024;
export const maxSourceSizeText = "8 MiB";
/** Real files have far fewer values. */
const maxValues = 500_000;

export type PriceFile = { from: string; text: string };

/** Reads a price file of models.dev or LiteLLM, detected by its shape. Amounts keep all their digits. */
function readPriceSource({ from, text }: PriceFile, modelNames: ReadonlySet<string>): PriceSource {
  if ((text.match(/[,[{]/g) ?? []).length > maxValues) {
    throw new UnreadablePrices(
      `${from} has more than ${maxValues.toLocaleString("en")} values: this isn’t a price file.`,
    );
  }
  let file: unknown;
  let repeated: Set<string>;
  try {
    file = parseExactJson(text);
    repeated = repeatedNames(text);
  } catch {
    throw new UnreadablePrices(
      `${from} isn’t JSON. Use models.dev’s api.json or LiteLLM’s model_prices_and_context_window.json.`,
    );
  }
  const record = isRecord(file) ? file : {};
  const markRepeated = (models: SourceModel[]) =>
    models.map((model) => (isRepeated(model, repeated) ? markAmbiguous(model) : model));
  const providers = modelsDevProviders(record);
  if (providers) return { name: "models.dev", models: markRepeated(readModelsDev(providers, modelNames)) };
  if (isLiteLlm(record)) return { name: "LiteLLM", models: markRepeated(readLiteLlm(record, modelNames)) };
  throw new UnreadablePrices(
    `${from} has no prices in a known form. Use models.dev’s api.json or LiteLLM’s model_prices_and_context_window.json.`,
  );
}

/** Matches strings and the brackets of objects and arrays. A string before a colon is a member's name. */
const jsonToken = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g;

/**
 * Returns the names of duplicate members in valid JSON, and of the members that contain them. Parsers keep only the
 * last duplicate.
 */
function repeatedNames(text: string): Set<string> {
  const repeated = new Set<string>();
  const open: { names: Set<string>; name: string }[] = [];
  for (const [token, string, colon] of text.matchAll(jsonToken)) {
    const object = open.at(-1);
    if (token === "{" || token === "[") open.push({ names: new Set(), name: "" });
    else if (token === "}" || token === "]") open.pop();
    else if (string && colon && object) {
      object.name = string.includes("\\") ? JSON.parse(string) : string.slice(1, -1);
      if (object.names.has(object.name)) for (const { name } of open) repeated.add(name);
      object.names.add(object.name);
    }
  }
  return repeated;
}

function isRepeated({ provider, model }: SourceModel, repeated: ReadonlySet<string>): boolean {
  return repeated.has(model) || repeated.has(`${provider}/${model}`);
}

function markAmbiguous(model: SourceModel): SourceModel {
  return { ...model, tiers: [], unpriced: ["stated twice in the file"], limits: {} };
}

/**
 * Reads one or two price files. Two files must come from different projects, so that they can be compared.
 * @param routes the routes whose models are read
 * @throws UnreadablePrices
 */
export function readPriceSources(
  files: readonly PriceFile[],
  routes: readonly { providerModel: string }[],
): PriceSource[] {
  const modelNames = new Set(routes.map(({ providerModel }) => providerModel));
  const sources = files.map((file) => readPriceSource(file, modelNames));
  const [first, second] = sources;
  if (first && first.name === second?.name) {
    throw new UnreadablePrices(`Both files are from ${first.name}. Choose one of models.dev and one of LiteLLM.`);
  }
  return sources;
}
