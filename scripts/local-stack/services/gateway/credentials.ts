import type { HonoRequest } from "hono";
import { bearerToken, isOpaqueKey, type KeyKind, type KeyRing, roleOfKey } from "./api-keys.ts";
import { invalidKey, missingKey, type Refusal, secretKeyInBrowser } from "./refusals.ts";
import type { TokenVerifier } from "./user-tokens.ts";

/** Which key a request brings, or why it may not pass. */
export type KeyCheck = { kind: KeyKind } | { refusal: Refusal };
/** For whom the Data API acts: a database role and, for users, what their token says. */
export type Caller = { kind: KeyKind; claims: Record<string, unknown> };

/** Checks the `apikey` header or query parameter, as hosted Supabase does in front of Auth and the Data API. */
export function checkApiKey(request: HonoRequest, keys: KeyRing): KeyCheck {
  const key = request.header("apikey") ?? request.query("apikey");
  if (!key) return { refusal: missingKey };
  const kind = keys.identify(key);
  if (!kind) return { refusal: invalidKey };
  if (kind === "secret" && /^Mozilla\//i.test(request.header("user-agent") ?? ""))
    return { refusal: secretKeyInBrowser };
  return { kind };
}

/**
 * Finds for whom the Data API shall act: the user of a bearer token, else the role of the key, where a key sent as
 * bearer goes before the one sent as `apikey`.
 */
export async function resolveCaller(
  request: HonoRequest,
  { keys, verify }: { keys: KeyRing; verify: TokenVerifier },
): Promise<Caller | { refusal: Refusal }> {
  const check = checkApiKey(request, keys);
  if ("refusal" in check) return check;
  const bearer = bearerToken(request.header("authorization"));
  if (bearer === undefined) return { kind: check.kind, claims: { role: roleOfKey[check.kind] } };
  if (isOpaqueKey(bearer)) {
    const kind = keys.identify(bearer);
    return kind ? { kind, claims: { role: roleOfKey[kind] } } : { refusal: invalidKey };
  }
  const verdict = await verify(bearer);
  return "refusal" in verdict ? verdict : { kind: check.kind, claims: verdict.claims };
}
