import { kinds } from "../_gateway/providers/kinds/registry.ts";
import { listRequiredSettings, type Provider } from "../_gateway/providers/provider-settings.ts";
import type { ProviderListing } from "../_shared/provider-setup.ts";

/** Describes the configured providers and all kinds. Names each member, so that no address or key is ever included. */
export function describeProviders(providers: ReadonlyMap<string, Provider>): ProviderListing {
  return {
    providers: [...providers]
      .map(([id, { kind, region, billingName, account, apiKey }]) => ({
        id,
        kind: kind.name,
        endpoints: Object.keys(kind.endpoints),
        region: region ?? null,
        billingName: billingName ?? null,
        account: account ?? null,
        hasKey: apiKey !== undefined,
      }))
      .sort((one, other) => (one.id < other.id ? -1 : 1)),
    kinds: Object.values(kinds).map((kind) => ({
      name: kind.name,
      needs: listRequiredSettings(kind),
      endpoints: Object.keys(kind.endpoints),
    })),
  };
}
