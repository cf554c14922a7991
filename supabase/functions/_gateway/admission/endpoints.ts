import { z } from "zod";
import type { Region } from "../../_shared/regions.ts";
import type { Caller, GatewayDatabase, ModelKind } from "../database/database.ts";
import { GatewayError } from "../http/errors.ts";
import type { Endpoint } from "../providers/kinds/kind.ts";
import type { Provider } from "../providers/provider-settings.ts";

type Providers = ReadonlyMap<string, Provider>;

/** Returns the ids of the providers that have an endpoint. */
export function listProvidersWithEndpoint(providers: Providers, endpoint: Endpoint): string[] {
  return [...providers].flatMap(([id, { kind }]) => (kind.endpoints[endpoint] ? id : []));
}

/** Returns the regions of the providers that have one, by the provider's id. */
export function listRegions(providers: Providers): Record<string, Region> {
  return Object.fromEntries([...providers].flatMap(([id, { region }]) => (region ? [[id, region]] : [])));
}

const listing = z.object({ platform: z.object({ kind: z.string(), default: z.boolean().optional() }) });
const listings = z.union([
  listing.transform((one) => [one]),
  z.object({ data: z.array(listing) }).transform((all) => all.data),
]);

/**
 * Distinguishes a model that this endpoint doesn't serve, because of its kind or its providers, from one that the
 * caller doesn't have access to. The database reports both as `model_not_found`.
 * @throws GatewayError always: `endpoint_not_served`, or the original error
 */
export async function refuseEndpoint(
  error: unknown,
  { database, providers }: { database: Pick<GatewayDatabase, "listModels">; providers: Providers },
  { caller, model, kind: requiredKind }: { caller: Caller; model?: string; kind: ModelKind },
): Promise<never> {
  if (error instanceof GatewayError && error.code === "model_not_found") {
    const listed = database.listModels({
      ...caller,
      model,
      providers: [...providers.keys()],
      regions: listRegions(providers),
      paths: [],
    });
    const { listing: text } = await listed.catch((other) => {
      throw other instanceof GatewayError && other.code === error.code ? error : other;
    });
    const usable = listings.parse(JSON.parse(text)).map(({ platform }) => platform);
    if (usable.some(({ kind, default: isDefault }) => model !== undefined || (isDefault && kind === requiredKind))) {
      throw new GatewayError("endpoint_not_served", { param: "model" });
    }
  }
  throw error;
}
