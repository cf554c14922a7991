import { z } from "zod";
import { utcText } from "#shared/utc-time.ts";
import type { Env } from "../config/env.server.ts";
import { hmac, type KeyRing, openKeyRing } from "../crypto/derived-key.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type Device, deriveSuccessor, type StoredSession, storedSession } from "./cookies.ts";

/** The platform's keys for browsers' accounts, one per purpose. */
export interface AccountKeys {
  /** Signs the device cookie. */
  cookie: KeyRing;
  /** Derives the device secret that replaces the current one when the browser switches accounts. */
  successor: KeyRing;
  /** Seals sessions at rest. */
  vault: KeyRing;
  /** Identifies a refresh token without storing it. */
  tag: KeyRing;
}

type KeyEnv = Pick<Env, "SUPABASE_SECRET_KEY"> &
  Partial<Pick<Env, "WEB_MULTI_ACCOUNT_SESSION_SECRET" | "WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS">>;

/**
 * Derives the keys from `WEB_MULTI_ACCOUNT_SESSION_SECRET` or, if that is unset, from the identity backend's server
 * secret (docs/accounts.md, The vault).
 */
export async function openAccountKeys(env: KeyEnv): Promise<AccountKeys> {
  const { WEB_MULTI_ACCOUNT_SESSION_SECRET, WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS = [], SUPABASE_SECRET_KEY } = env;
  const secrets: [string, ...string[]] = [
    WEB_MULTI_ACCOUNT_SESSION_SECRET ?? SUPABASE_SECRET_KEY,
    ...WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS,
  ];
  const [cookie, successor, vault, tag] = await Promise.all([
    openKeyRing(secrets, "device cookie"),
    openKeyRing(secrets, "successor of a device secret"),
    openKeyRing(secrets, "account vault"),
    openKeyRing(secrets, "tag of a refresh token"),
  ]);
  return { cookie, successor, vault, tag };
}

/** The user and browser that a session is sealed for. It opens only for them. */
export interface SealedFor {
  deviceId: string;
  userId: string;
}

/** A session as stored in the vault. */
export interface Sealed {
  /** base64url of nonce, ciphertext and tag. */
  sealed: string;
  keyId: string;
  /** A keyed hash of the sealed refresh token. */
  tag: string;
}

const nonceBytes = 12;
const tagCharacters = 32;

/** Seals a session: AES-256-GCM with device, user and key as associated data. */
export async function sealSession(
  session: StoredSession,
  { keys, ...owner }: SealedFor & { keys: AccountKeys },
): Promise<Sealed> {
  const { id: keyId, key } = keys.vault.current;
  const iv = crypto.getRandomValues(new Uint8Array(nonceBytes));
  const text = new TextEncoder().encode(JSON.stringify(storedSession.parse(session)));
  const sealed = await crypto.subtle.encrypt(algorithm(iv, { ...owner, keyId }), await importKey(key, "encrypt"), text);
  return {
    sealed: Buffer.concat([iv, new Uint8Array(sealed)]).toString("base64url"),
    keyId,
    tag: computeSessionTag(session, keys),
  };
}

/**
 * Opens a sealed session.
 * @returns null if the session was modified, truncated, or sealed for another device or user, or if `keys` does not
 * contain its key
 */
export async function openSession(
  { sealed, keyId }: Pick<Sealed, "sealed" | "keyId">,
  { keys, ...owner }: SealedFor & { keys: AccountKeys },
): Promise<StoredSession | null> {
  const key = keys.vault.find(keyId);
  if (!key) return null;
  const bytes = Buffer.from(sealed, "base64url");
  const iv = new Uint8Array(bytes.subarray(0, nonceBytes));
  try {
    const text = await crypto.subtle.decrypt(
      algorithm(iv, { ...owner, keyId }),
      await importKey(key, "decrypt"),
      new Uint8Array(bytes.subarray(nonceBytes)),
    );
    return storedSession.parse(JSON.parse(new TextDecoder().decode(text)));
  } catch {
    return null;
  }
}

/** Returns a keyed hash that identifies a session's refresh token. */
export function computeSessionTag(
  { refresh_token }: Pick<StoredSession, "refresh_token">,
  { tag }: AccountKeys,
): string {
  return hmac(tag.current.key, refresh_token).toString("base64url").slice(0, tagCharacters);
}

function algorithm(iv: Uint8Array<ArrayBuffer>, { deviceId, userId, keyId }: SealedFor & { keyId: string }) {
  const additionalData = new TextEncoder().encode(`gatehouse account vault\n${deviceId}\n${userId}\n${keyId}`);
  return { name: "AES-GCM", iv, additionalData };
}

function importKey(key: Uint8Array<ArrayBuffer>, use: "encrypt" | "decrypt"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
}

/** An account of a browser, as listed by the API. */
export const accountSchema = z.object({
  id: z.uuid(),
  email: z.string().nullable(),
  displayName: z.string().nullable(),
  avatarUrl: z.string().nullable(),
  active: z.boolean(),
  requiresReauth: z.boolean(),
  lastRoute: z.string().nullable(),
  lastActiveAt: utcText,
  addedAt: utcText,
});

/** An account of a browser, with the reason why its session ended, which the API does not return. */
const deviceAccount = accountSchema.extend({ endReason: z.string().nullable().default(null) });

export type Account = z.infer<typeof deviceAccount>;

/** A browser's device, as `private.device_state` returns it. */
export const deviceView = z.object({
  /** `previous`: the browser has yet to receive the current secret. */
  secret: z.enum(["current", "previous"]),
  /** Whether the browser has sent its newest secret before. */
  arrived: z.boolean(),
  /** Whether the secret is old enough that the cookie's expiry is extended. */
  old: z.boolean(),
  /** The active account and its live session, or null. */
  active: z.object({ userId: z.uuid(), sessionId: z.uuid(), tag: z.string() }).nullable(),
  accounts: z.array(deviceAccount),
});

export type DeviceView = z.infer<typeof deviceView>;

export const vaultEntry = z.object({
  userId: z.uuid(),
  sessionId: z.uuid(),
  sealed: z.string().nullable(),
  keyId: z.string().nullable(),
  tag: z.string().nullable(),
  /** When the session's approval by a phone expires. Absent from a database that is older than this server. */
  approvedUntil: z.string().nullable().default(null),
});

/** An account's session in the vault. Its tag lets a later write detect that another write came first. */
export type VaultEntry = z.infer<typeof vaultEntry>;

const deviceWithVault = deviceView.extend({ vault: vaultEntry.nullable() });

const keepResult = z.union([
  z.object({ kept: z.literal(true) }),
  z.object({ kept: z.literal(false), current: vaultEntry.nullable() }),
]);

const takeResult = z.object({
  status: z.enum(["current", "previous", "spent", "unknown"]),
  /** Absent for an unknown device. */
  secret: z.string().optional(),
});

/** Thrown if the database did not answer. The call can be repeated. */
export class VaultUnavailable extends Error {
  override name = "VaultUnavailable";
}

/**
 * Retries an idempotent call once if the vault did not answer. The first call may have succeeded and lost its response.
 */
export async function retryOnce<Result>(call: () => Promise<Result>): Promise<Result> {
  return call().catch((error: unknown) => {
    if (error instanceof VaultUnavailable) return call();
    throw error;
  });
}

export interface KeepOptions {
  device: Device;
  /** The entry to replace, identified by its tag. */
  entry: Pick<VaultEntry, "userId" | "sessionId" | "tag">;
  /** Absent if the call only records that the entry was used. */
  session?: StoredSession;
  lastRoute?: string | null;
}

/** The sealed sessions of browsers. Only our server can read them. */
export interface Vault {
  keys: AccountKeys;
  /** @throws VaultUnavailable if the database did not answer */
  call<Schema extends z.ZodType>(
    name: string,
    options: { args: Record<string, unknown>; schema: Schema },
  ): Promise<z.infer<Schema>>;
  /**
   * Adds sign-ins, identified by the secrets in `added`, to a browser's accounts.
   * @returns the device with its new secret; null if the device is unknown or its secret is invalid
   */
  takeAdditions(device: Device, added: readonly string[]): Promise<Device | null>;
  /** Returns the device with its active account's sealed session; null if the device is unknown. */
  open(device: Device): Promise<z.infer<typeof deviceWithVault> | null>;
  /** Returns the session in an entry, or null if it does not open. */
  unseal(device: Device, entry: VaultEntry): Promise<StoredSession | null>;
  seal(device: Device, owner: { userId: string; session: StoredSession }): Promise<Sealed>;
  /**
   * Replaces an entry's session with a rotated session. @returns false and the current session if another call was
   * faster
   */
  keep(options: KeepOptions): Promise<z.infer<typeof keepResult>>;
  /**
   * Records that the browser has sent its newest secret, so that the previous one can be removed. On failure, the next
   * request records it again.
   */
  confirmSecret(device: Device): Promise<void>;
  /**
   * Discards an entry's session. `listed` keeps the account in the list, for another sign-in.
   * @returns false if another request changed the entry first
   */
  discard(device: Device, options: { entry: VaultEntry; listed: boolean }): Promise<boolean>;
}

/** Opens a process's vault, with keys that are derived once. */
export async function openVault(env: Env): Promise<Vault> {
  const keys = await openAccountKeys(env);
  const database = createServiceClient(env).schema("private");

  const call: Vault["call"] = async (name, { args, schema }) => {
    const { data, error } = await database.rpc(name, args);
    if (error) throw new VaultUnavailable(`${name}: ${error.code} ${error.message}`);
    return schema.parse(data) as never;
  };

  async function takeAdditions({ id, secret }: Device, added: readonly string[]): Promise<Device | null> {
    const args = { device_id: id, secret, added };
    const result = await call("take_additions", { args, schema: takeResult });
    const device = { id, secret: result.secret ?? secret };
    if (result.status === "current") return device;
    // The response to an account switch was lost, so the browser still sends the previous secret. Retries with the next
    // secret.
    return result.status === "previous" ? takeAdditions(deriveSuccessor(device, keys), added) : null;
  }

  return {
    keys,
    call,
    takeAdditions,
    open: (device) =>
      call("open_account_device", {
        args: { device_id: device.id, secret: device.secret },
        schema: deviceWithVault.nullable(),
      }),
    async unseal({ id: deviceId }, { userId, sealed, keyId }) {
      return sealed === null || keyId === null ? null : openSession({ sealed, keyId }, { deviceId, userId, keys });
    },
    seal: ({ id: deviceId }, { userId, session }) => sealSession(session, { deviceId, userId, keys }),
    async keep({ device, entry, session, lastRoute = null }) {
      const { userId, sessionId, tag: expectedTag } = entry;
      const sealed = session ? await sealSession(session, { deviceId: device.id, userId, keys }) : {};
      return call("store_account_session", {
        args: { entry: { deviceId: device.id, userId, sessionId, expectedTag, lastRoute, ...sealed } },
        schema: keepResult,
      });
    },
    confirmSecret: ({ id, secret }) =>
      call("confirm_device_secret", { args: { device_id: id, secret }, schema: z.unknown() }).then(
        () => {},
        () => {},
      ),
    discard: (device, { entry, listed }) =>
      call("discard_account_session", {
        args: { device_id: device.id, user_id: entry.userId, expected_tag: entry.tag, listed },
        schema: z.boolean(),
      }),
  };
}
