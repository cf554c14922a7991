import type { Env } from "../config/env.server.ts";
import { type KeyRing, openKeyRing } from "../keys/key-ring.ts";

/** The platform's keys for apps, one for each purpose. */
export interface AppKeys {
  /** Signs required-MFA proofs. */
  proof: KeyRing;
  /** Signs app sessions. */
  session: KeyRing;
  /** Derives what follows a token when it is refreshed. */
  successor: KeyRing;
}

type KeyEnv = Pick<Env, "APP_SESSION_SECRET" | "APP_SESSION_PREVIOUS_SECRETS">;

const opened = new WeakMap<KeyEnv, Promise<AppKeys>>();

/** The keys, derived once a process; null where the platform has no secret for apps. */
export function openAppKeys(env: KeyEnv): Promise<AppKeys> | null {
  const { APP_SESSION_SECRET: current, APP_SESSION_PREVIOUS_SECRETS: earlier = [] } = env;
  if (current === undefined) return null;
  const known = opened.get(env) ?? deriveKeys([current, ...earlier]);
  opened.set(env, known);
  return known;
}

async function deriveKeys(secrets: readonly [string, ...string[]]): Promise<AppKeys> {
  const [proof, session, successor] = await Promise.all([
    openKeyRing(secrets, "required-MFA proof"),
    openKeyRing(secrets, "app session"),
    openKeyRing(secrets, "successor of an app's token"),
  ]);
  return { proof, session, successor };
}
