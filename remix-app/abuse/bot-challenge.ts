import type { AppLoadContext } from "@remix-run/server-runtime";
import { isLoopback } from "#shared/loopback.ts";
import type { Env } from "../config/env.server.ts";

/** The form field that carries a bot challenge's token. */
export const botChallengeField = "botChallengeToken";

/** What a page needs to show the challenge's widget. */
export interface BotChallengeSettings {
  siteKey: string;
  scriptUrl: string;
}

/**
 * Whether the calls that the identity backend protects need a bot challenge's token. The bypass of browser tests holds
 * on this machine alone.
 */
export function hasBotChallenge(env: Env): boolean {
  if (env.TURNSTILE_SITE_KEY === undefined) return false;
  return !(env.E2E_BOT_CHALLENGE_BYPASS === "on" && isLoopback(new URL(env.SUPABASE_URL).hostname));
}

/**
 * For the loader of a page that shows the bot challenge; its answer may use the widget's origin then.
 * @returns what `BotChallenge` takes; null where none is configured
 */
export function showBotChallenge({ env, allowWidget }: AppLoadContext): BotChallengeSettings | null {
  const { TURNSTILE_SITE_KEY: siteKey, TURNSTILE_ORIGIN: origin } = env;
  if (siteKey === undefined || !hasBotChallenge(env)) return null;
  allowWidget(origin);
  return { siteKey, scriptUrl: `${origin}/turnstile/v0/api.js?render=explicit` };
}
