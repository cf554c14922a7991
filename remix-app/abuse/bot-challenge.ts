import type { AppLoadContext } from "@remix-run/node";
import { isLoopback } from "#shared/loopback.ts";
import type { Env } from "../config/env.server.ts";

export const botChallengeField = "botChallengeToken";

/** What a page needs to show the challenge's widget. */
export interface BotChallengeSettings {
  siteKey: string;
  scriptUrl: string;
}

/**
 * Returns whether calls that the identity backend protects need a bot challenge token. The bypass for browser tests
 * works only with a local backend.
 */
export function hasBotChallenge(env: Env): boolean {
  if (env.TURNSTILE_SITE_KEY === undefined) return false;
  return !(env.E2E_BOT_CHALLENGE_BYPASS === "on" && isLoopback(new URL(env.SUPABASE_URL).hostname));
}

/**
 * Call it in the loader of a page that shows the bot challenge. Allows the widget's origin in the response's content
 * security policy.
 * @returns the settings for `BotChallenge`; null if none is configured
 */
export function showBotChallenge({ env, allowWidget }: AppLoadContext): BotChallengeSettings | null {
  const { TURNSTILE_SITE_KEY: siteKey, TURNSTILE_ORIGIN: origin } = env;
  if (siteKey === undefined || !hasBotChallenge(env)) return null;
  allowWidget(origin);
  return { siteKey, scriptUrl: `${origin}/turnstile/v0/api.js?render=explicit` };
}
