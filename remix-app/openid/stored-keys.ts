import type { JWK } from "jose";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import type { Env } from "../config/env.server.ts";
import { type KeyRing, openKeyRing } from "../crypto/derived-key.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { createSealedKey, openPrivateJwk, publicRsaJwk, type SealedKey, sealPrivateJwk } from "./sealed-key.ts";

/** The context of a request, or of a scheduled task, which has no request id. */
export interface SigningContext {
  env: Env;
  requestId?: string;
}

const storedKeys = z.array(
  z.object({
    kid: z.string(),
    publicJwk: publicRsaJwk,
    sealedPrivateJwk: z.string(),
    sealingKeyId: z.string(),
    signs: z.boolean(),
  }),
);

/** The published keys, and the private key that signs. */
export interface StoredKeys {
  published: Pick<SealedKey, "kid" | "publicJwk">[];
  signing: { kid: string; privateJwk: JWK };
}

const keyRingByEnv = new WeakMap<Env, Promise<KeyRing>>();
/**
 * A third read may be needed, because another server may create the first key after one read and replace the key after
 * the next read.
 */
const maxReads = 3;

/**
 * Reads the signing keys. Creates the first key, and replaces a key that no configured secret can decrypt, so that
 * OpenID clients can still sign people in.
 * @throws Response 503 UNAVAILABLE without APP_SESSION_SECRET, or if the database does not answer
 */
export async function readStoredKeys(context: SigningContext): Promise<StoredKeys> {
  const ring = await requireRing(context);
  for (let reads = 1; reads <= maxReads; reads += 1) {
    const keys = await callKeyFunction(context, { name: "private.read_signing_keys", schema: storedKeys });
    const current = keys.find(({ signs }) => signs);
    const privateJwk = current && (await openPrivateJwk(current, ring));
    if (privateJwk) return { published: keys, signing: { kid: current.kid, privateJwk } };
    const key = await createSealedKey(ring);
    const added = await callKeyFunction(context, {
      name: "private.replace_signing_key",
      args: { ...toRpcArguments(key), replaces: current?.kid ?? null },
      schema: z.boolean(),
    });
    if (added && current) {
      logError(
        `signing key ${current.kid} cannot be opened with APP_SESSION_SECRET or APP_SESSION_PREVIOUS_SECRETS: ${key.kid} replaces it now`,
        { requestId: idOf(context) },
      );
    }
  }
  throw unavailable(context, "No signing key could be read.");
}

/**
 * Publishes the next key when it is due, re-encrypts keys that an earlier secret encrypted, and deletes retired keys.
 * Safe to run on several servers at the same time.
 * @throws Response as {@link readStoredKeys}
 */
export async function rotateStoredKeys(context: SigningContext): Promise<void> {
  const ring = await requireRing(context);
  if (await callKeyFunction(context, { name: "private.signing_key_is_due", schema: z.boolean() })) {
    const args = toRpcArguments(await createSealedKey(ring));
    await callKeyFunction(context, { name: "private.add_next_signing_key", args, schema: z.boolean() });
  }
  await callKeyFunction(context, { name: "private.delete_retired_signing_keys", schema: z.number() });
  const keys = await callKeyFunction(context, { name: "private.read_signing_keys", schema: storedKeys });
  for (const key of keys.filter(({ sealingKeyId }) => sealingKeyId !== ring.current.id)) {
    const privateJwk = await openPrivateJwk(key, ring);
    if (!privateJwk) continue;
    const { kid, sealingKeyId: expected } = key;
    const { sealedPrivateJwk, sealingKeyId } = await sealPrivateJwk(privateJwk, { kid, ring });
    await callKeyFunction(context, {
      name: "private.reseal_signing_key",
      args: {
        kid,
        sealed_private_jwk: sealedPrivateJwk,
        sealing_key_id: sealingKeyId,
        expected_sealing_key_id: expected,
      },
      schema: z.boolean(),
    });
  }
}

function requireRing(context: SigningContext): Promise<KeyRing> {
  const { env } = context;
  const { APP_SESSION_SECRET: current, APP_SESSION_PREVIOUS_SECRETS: previous = [] } = env;
  if (current === undefined) {
    throw unavailable(context, "This platform is not set up for apps: APP_SESSION_SECRET is not set.");
  }
  const ring = keyRingByEnv.get(env) ?? openKeyRing([current, ...previous], "OpenID signing keys");
  keyRingByEnv.set(env, ring);
  return ring;
}

function toRpcArguments({ kid, publicJwk, sealedPrivateJwk, sealingKeyId }: SealedKey) {
  return { kid, public_jwk: publicJwk, sealed_private_jwk: sealedPrivateJwk, sealing_key_id: sealingKeyId };
}

function callKeyFunction<Schema extends z.ZodType>(
  context: SigningContext,
  options: { name: `private.${string}`; args?: object; schema: Schema },
): Promise<z.output<Schema>> {
  return callFunction({ env: context.env, requestId: idOf(context) }, options);
}

function unavailable(context: SigningContext, detail: string): Response {
  return problem("UNAVAILABLE", { requestId: idOf(context), detail });
}

function idOf({ requestId = "none" }: SigningContext): string {
  return requestId;
}
