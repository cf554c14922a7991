/** The part of the functions' providers that decides which settings are missing. */
type Listing = {
  providers: readonly { id: string }[];
  kinds: readonly { name: string; needs: readonly string[] }[];
};

export const providerSettingPrefix = "AI_PROVIDER";

/** Returns the name of a provider's setting, such as `AI_PROVIDER_EU_OPENAI_API_KEY`. */
export function providerSettingName(id: string, setting: string): string {
  return `${providerSettingPrefix}_${id.toUpperCase()}_${setting}`;
}

/**
 * Returns the names of the settings that a provider needs before the functions can call it. Returns none if it is
 * configured, and only the name of its kind if the kind is not known.
 */
export function listMissingSettings(
  { providers, kinds }: Listing,
  { id, kind }: { id: string; kind: string | null },
): string[] {
  if (providers.some((provider) => provider.id === id)) return [];
  const needs = kinds.find(({ name }) => name === kind)?.needs ?? ["KIND"];
  return needs.map((setting) => providerSettingName(id, setting));
}
