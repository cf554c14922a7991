import type { Context } from "hono";
import type { DataApi } from "../data-api/data-api.ts";
import type { KeyRing } from "./api-keys.ts";
import { resolveCaller } from "./credentials.ts";
import type { TokenVerifier } from "./user-tokens.ts";

export type RestRouteOptions = { dataApi: DataApi; keys: KeyRing; verify: TokenVerifier };

/** Serves `/rest/v1/*` through the Data API. The Data API receives verified claims instead of the key and the token. */
export function restRoute({ dataApi, keys, verify }: RestRouteOptions) {
  return async (c: Context) => {
    const caller = await resolveCaller(c.req, { keys, verify });
    if ("refusal" in caller) return c.json(caller.refusal.body, caller.refusal.status, caller.refusal.headers);
    const url = new URL(c.req.url);
    if (url.searchParams.has("apikey")) url.searchParams.delete("apikey");
    return dataApi.handle(c.req.raw, { url, caller });
  };
}
