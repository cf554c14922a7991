import type { HonoRequest } from "hono";
import { bearerToken, isOpaqueKey, type KeyKind, type KeyRing, roleOfKey } from "./api-keys.ts";
import { invalidKey, missingKey, type Refusal, secretKeyInBrowser } from "./refusals.ts";
import type { TokenVerifier } from "./user-tokens.ts";

/** The kind of key in a request, or why the request is refused. */
export type KeyCheck = { kind: KeyKind } | { refusal: Refusal };
/** The identity for which the Data API acts: a database role and, for users, their token's claims. */
export type Caller = { kind: KeyKind; claims: Record<string, unknown> };

/** Checks the `apikey` header or query parameter, as hosted Supabase does before Auth and the Data API. */
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
 * Determines the identity for which the Data API acts: the user of a bearer token, or else the role of the key. A key
 * sent as bearer takes precedence over one sent as `apikey`.
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
  const verification = await verify(bearer);
  return "refusal" in verification ? verification : { kind: check.kind, claims: verification.claims };
}
