import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { passkeyName, passkeyProvider } from "../activity/passkey-name.ts";
import type { Env } from "../config/env.server.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";

export const passkeyRows = z.array(
  z
    .object({
      id: z.uuid(),
      credential_id: z.string().regex(/^([0-9a-f]{2})+$/),
      name: z.string(),
      // Not every AAGUID is a valid RFC 9562 UUID.
      aaguid: z.guid().nullable(),
      device: z.string().nullable(),
      created_at: z.iso.datetime({ offset: true }),
      last_used_at: z.iso.datetime({ offset: true }).nullable(),
    })
    .transform(({ id, credential_id, name, aaguid, device, created_at, last_used_at }) => ({
      id,
      /** The id in base64url, as browsers encode it. */
      credentialId: Buffer.from(credential_id, "hex").toString("base64url"),
      name: passkeyName({ name, aaguid, device }),
      /** The passkey's provider, such as "1Password", or null if it is not a well-known provider. */
      provider: passkeyProvider(aaguid),
      /** The device that added it, such as "Chrome on macOS", or null if no event recorded one. */
      device,
      createdAt: created_at,
      lastUsedAt: last_used_at,
    })),
);

export type Passkey = z.infer<typeof passkeyRows>[number];

/**
 * Returns an account's passkeys, oldest first.
 * @returns null if they could not be read
 */
export async function listPasskeys(env: Env, userId: string): Promise<Passkey[] | null> {
  const { data, error } = await createServiceClient(env).schema("private").rpc("list_passkeys", { user_id: userId });
  return error ? null : passkeyRows.parse(data);
}

/**
 * Returns whether any account has the passkey with this credential id.
 * @returns null if the database does not answer
 */
export async function passkeyExists(env: Env, credentialId: string): Promise<boolean | null> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("passkey_exists", { credential_id: Buffer.from(credentialId, "base64url").toString("hex") });
  return error ? null : z.boolean().parse(data);
}

/**
 * Returns the account's passkey with the id from the URL.
 * @throws Response 404 NOT_FOUND if the account has no such passkey, 503 UNAVAILABLE if the passkeys cannot be read
 */
export async function requirePasskey(
  { env, requestId }: AppLoadContext,
  { userId, passkeyId }: { userId: string; passkeyId: string | undefined },
): Promise<Passkey> {
  const passkeys = await listPasskeys(env, userId);
  if (!passkeys) throw problem("UNAVAILABLE", { requestId });
  const passkey = passkeys.find(({ id }) => id === passkeyId);
  if (!passkey) throw createMissingPasskeyProblem(requestId);
  return passkey;
}

/** Answers a request for a passkey that the account does not have. */
export function createMissingPasskeyProblem(requestId: string): Response {
  return problem("NOT_FOUND", { requestId, detail: "This passkey doesn’t exist. It may have been deleted." });
}
