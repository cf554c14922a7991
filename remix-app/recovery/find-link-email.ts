import type { AppLoadContext } from "@remix-run/node";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { tokenHash } from "./credential.ts";
import { recoveryBrowserHash } from "./recovery-browser.ts";

/**
 * Returns the email of the account that a recovery link would sign in to, or null if the link does not work in this
 * browser. Changes nothing.
 * @throws Response 503 AUTH_UNAVAILABLE if the lookup fails
 */
export async function findLinkEmail(context: AppLoadContext, token: string): Promise<string | null> {
  const { env, requestId } = context;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("find_recovery_link_email", {
      token_hash: `\\x${tokenHash(env, token)}`,
      browser_hash: recoveryBrowserHash(context),
    });
  if (error) {
    logError(`a recovery link cannot be read: ${error.code}`, { requestId });
    throw problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
  }
  return typeof data === "string" ? data : null;
}
