import type { AppLoadContext } from "@remix-run/node";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { relyingPartyFault } from "./relying-party.ts";

/**
 * Checks that a passkey request names our relying party. Browsers reject a wrong relying party with an obscure error,
 * and passkeys created for it are lost once the setting is corrected.
 * @throws Response 503 UNAVAILABLE for a wrong relying party; the log says what to correct
 */
export function requireRelyingParty({ env, origin, requestId }: AppLoadContext, reported: string | undefined): void {
  const fault = relyingPartyFault({ origin, parentDomain: env.PARENT_DOMAIN, reported });
  if (fault === null) return;
  logError(fault, { requestId });
  const detail = "Passkeys aren’t set up correctly on this site. Use another way to sign in for now.";
  throw problem("UNAVAILABLE", { requestId, detail });
}
