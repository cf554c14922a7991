import type { Env } from "../config/env.server.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { relyingPartyFault } from "./relying-party.ts";

/**
 * Asks the identity backend once, at boot, for its relying party, so that the operator learns of a fault before the
 * first person tries a passkey. Each passkey request repeats the check.
 * @returns one line per fault; undefined if the backend does not answer yet, or requires a bot challenge
 */
export async function findPasskeyFaults(env: Env): Promise<string[] | undefined> {
  const { data, error } = await createServiceClient(env).auth.passkey.startAuthentication();
  if (error?.code === "passkey_disabled") return ["passkeys are refused: the identity backend has them switched off."];
  if (error) return undefined;
  const reported = data.options.rpId;
  return [env.BASE_URL, ...(env.WEB_ALLOWED_ORIGINS ?? [])]
    .map((origin) => relyingPartyFault({ origin, parentDomain: env.PARENT_DOMAIN, reported }))
    .filter((fault) => fault !== null);
}
