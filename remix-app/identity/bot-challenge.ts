import { isLoopback } from "#shared/loopback.ts";
import type { Env } from "../env.server.ts";

/** The form field that carries a bot challenge's token. */
export const botChallengeField = "botChallengeToken";

/**
 * Whether the calls that the identity backend protects need a bot challenge's token. The bypass of browser tests holds
 * on this machine alone (spec.md, Authentication 6).
 */
export function hasBotChallenge(env: Env): boolean {
  if (env.TURNSTILE_SITE_KEY === undefined) return false;
  return !(env.E2E_BOT_CHALLENGE_BYPASS === "on" && isLoopback(new URL(env.SUPABASE_URL).hostname));
}
