import type { Env } from "../config/env.server.ts";
import { type KeyRing, openKeyRing } from "../keys/key-ring.ts";

/** The platform's keys for browsers' accounts, one for each purpose. */
export interface AccountKeys {
  /** Signs the device cookie. */
  cookie: KeyRing;
  /** Derives the device secret that follows another. */
  successor: KeyRing;
  /** Seals sessions at rest. */
  vault: KeyRing;
  /** Tells one refresh token from another without keeping it. */
  tag: KeyRing;
}

type KeyEnv = Pick<Env, "SUPABASE_SECRET_KEY"> &
  Partial<Pick<Env, "WEB_MULTI_ACCOUNT_SESSION_SECRET" | "WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS">>;

/**
 * Derives the keys from `WEB_MULTI_ACCOUNT_SESSION_SECRET`; where that is unset, from the identity
 * backend's server secret (docs/accounts.md, The vault).
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
