import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { passkeyName, passkeyProvider } from "../activity/passkey-name.ts";
import type { Env } from "../config/env.server.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";

const rows = z.array(
  z
    .object({
      id: z.uuid(),
      credential_id: z.string().regex(/^([0-9a-f]{2})+$/),
      name: z.string(),
      // Not every AAGUID is a UUID of RFC 9562.
      aaguid: z.guid().nullable(),
      device: z.string().nullable(),
      created_at: z.iso.datetime({ offset: true }),
      last_used_at: z.iso.datetime({ offset: true }).nullable(),
    })
    .transform(({ id, credential_id, name, aaguid, device, created_at, last_used_at }) => ({
      id,
      /** As browsers write it. */
      credentialId: Buffer.from(credential_id, "hex").toString("base64url"),
      name: passkeyName({ name, aaguid, device }),
      /** Who keeps it, such as "1Password"; null where it is not a well-known provider. */
      provider: passkeyProvider(aaguid),
      /** From where it was added: "Chrome on macOS"; null where no event says so. */
      device,
      createdAt: created_at,
      lastUsedAt: last_used_at,
    })),
);

/** A passkey of an account. */
export type Passkey = z.infer<typeof rows>[number];

/**
 * An account's passkeys, oldest first.
 * @returns null where they could not be read
 */
export async function listPasskeys(env: Env, userId: string): Promise<Passkey[] | null> {
  const { data, error } = await createServiceClient(env).schema("private").rpc("list_passkeys", { user_id: userId });
  return error ? null : rows.parse(data);
}

/**
 * Whether any account has the passkey with this credential id.
 * @returns null where nobody can say
 */
export async function passkeyExists(env: Env, credentialId: string): Promise<boolean | null> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("passkey_exists", { credential_id: Buffer.from(credentialId, "base64url").toString("hex") });
  return error ? null : z.boolean().parse(data);
}

/**
 * One passkey of an account, as an address names it.
 * @throws Response 404 NOT_FOUND where the account has none of this id, 503 UNAVAILABLE where nobody can say
 */
export async function requirePasskey(
  { env, requestId }: AppLoadContext,
  { userId, passkeyId }: { userId: string; passkeyId: string | undefined },
): Promise<Passkey> {
  const passkeys = await listPasskeys(env, userId);
  if (!passkeys) throw problem("UNAVAILABLE", { requestId });
  const passkey = passkeys.find(({ id }) => id === passkeyId);
  if (!passkey) throw noSuchPasskey(requestId);
  return passkey;
}

/** The answer about a passkey that the account does not have. */
export function noSuchPasskey(requestId: string): Response {
  return problem("NOT_FOUND", { requestId, detail: "This passkey doesn’t exist. It may have been deleted." });
}
