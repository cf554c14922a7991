import { providerSettingPrefix } from "#shared/provider-setting-names.ts";
import type { SourceName } from "./price-source.ts";

type Names = Readonly<Record<SourceName, readonly string[]>>;

/**
 * Maps each provider kind (docs/providers.md) to the price sources' names for its company. The names are models.dev's
 * provider folders and LiteLLM's `litellm_provider` values. Kinds that do not belong to one company have no entry.
 */
const companyNamesByKind: Readonly<Record<string, Names>> = {
  openai: { "models.dev": ["openai"], LiteLLM: ["openai"] },
  azure: { "models.dev": ["azure", "azure-cognitive-services"], LiteLLM: ["azure", "azure_ai"] },
  gemini: { "models.dev": ["google"], LiteLLM: ["gemini"] },
  mistral: { "models.dev": ["mistral"], LiteLLM: ["mistral"] },
  deepseek: { "models.dev": ["deepseek"], LiteLLM: ["deepseek"] },
  groq: { "models.dev": ["groq"], LiteLLM: ["groq"] },
  xai: { "models.dev": ["xai"], LiteLLM: ["xai"] },
  moonshot: { "models.dev": ["moonshotai", "moonshotai-cn"], LiteLLM: ["moonshot"] },
  openrouter: { "models.dev": ["openrouter"], LiteLLM: ["openrouter"] },
  together: { "models.dev": ["togetherai"], LiteLLM: ["together_ai"] },
  perplexity: { "models.dev": ["perplexity"], LiteLLM: ["perplexity"] },
  bedrock: { "models.dev": ["amazon-bedrock"], LiteLLM: ["bedrock", "bedrock_converse", "bedrock_mantle"] },
};

/**
 * Returns the names that the price sources use for a provider, which is given by its kind or by one of these names. If
 * the provider is unknown, returns the given name in lower case for each source.
 */
export function findSourceNames(name: string): Names {
  const lowerCase = name.toLowerCase();
  const [, company] =
    Object.entries(companyNamesByKind).find(
      ([kind, names]) => kind === lowerCase || Object.values(names).some((each) => each.includes(lowerCase)),
    ) ?? [];
  return company ?? { "models.dev": [lowerCase], LiteLLM: [lowerCase] };
}

/**
 * Returns whether a tier's higher price also applies to an input of exactly the tier's size, not only to larger inputs.
 * LiteLLM treats xAI's tiers this way.
 */
export function isTierThresholdInclusive(name: string): boolean {
  return findSourceNames(name) === companyNamesByKind.xai;
}

const providerSettingPattern = new RegExp(`^${providerSettingPrefix}_([A-Z][A-Z0-9_]*?)_(KIND|BILLING_NAME)$`);

/**
 * Returns each provider's company name: its kind if `companyNamesByKind` lists the kind, otherwise its billing name.
 * @returns names by provider id. A provider without an entry is named by its id.
 */
export function namesFromProviders(
  providers: readonly { id: string; kind: string; billingName: string | null }[],
): Map<string, string> {
  return new Map(
    providers.flatMap(({ id, kind, billingName }) => {
      const name = Object.hasOwn(companyNamesByKind, kind) ? kind : billingName;
      return name ? [[id, name] as const] : [];
    }),
  );
}

/** Reads the names of {@link namesFromProviders} from the functions' settings. */
export function namesFromSettings(env: Record<string, string | undefined>): Map<string, string> {
  const providers = new Map<string, { id: string; kind: string; billingName: string | null }>();
  for (const [setting, value] of Object.entries(env)) {
    const [, name, what] = providerSettingPattern.exec(setting) ?? [];
    if (name === undefined || !value) continue;
    const id = name.toLowerCase();
    const provider = providers.get(id) ?? { id, kind: "", billingName: null };
    providers.set(id, what === "KIND" ? { ...provider, kind: value } : { ...provider, billingName: value });
  }
  return namesFromProviders([...providers.values()]);
}

const namePairPattern = /^\s*([a-z][a-z0-9_]{0,31})\s*=\s*([A-Za-z0-9._:-]{1,128})\s*$/;

/**
 * Parses the provider names of the command line: `id=name`, separated by commas or line breaks.
 * @returns null if a part is not such a pair
 */
export function readNames(text: string): Map<string, string> | null {
  const pairs = text
    .split(/[,\n]/)
    .filter((part) => part.trim() !== "")
    .map((part) => namePairPattern.exec(part));
  return pairs.every((found) => found !== null) ? new Map(pairs.map(([, id = "", name = ""]) => [id, name])) : null;
}
