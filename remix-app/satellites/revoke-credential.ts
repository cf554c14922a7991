import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { refuseApp, requireAppKeys } from "./app-client.ts";
import { callAppFunction } from "./app-database.ts";
import { sessionHash, type TokenOfApp } from "./app-sessions.ts";
import { isAppToken } from "./app-tokens.ts";
import { hashOf } from "./tokens.ts";

/**
 * Ends an app session, or a token for the gateway, with all that came of the same handoff (RFC 7009: a token that is
 * none is no error).
 * @throws Response 401 where the app did not prove itself
 */
export async function revokeAppCredential(context: AppLoadContext, { client, token }: TokenOfApp): Promise<void> {
  const isAuthenticated = await callAppFunction(context, {
    name: "revoke_app_credential",
    args: {
      ...client.credentials,
      token_hash: isAppToken(token) ? hashOf(token) : await sessionHash(token, await requireAppKeys(context)),
    },
    schema: z.boolean(),
  });
  if (!isAuthenticated) throw await refuseApp(context);
}
