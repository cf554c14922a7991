import { turnstileSecret } from "./secrets.ts";
import type { ServiceContext } from "./services.ts";

/** The site key of the simulated Turnstile widget. */
const siteKey = "local-bot-challenge";

/** Returns the bot challenge settings for the stack's processes; null if it is off. */
export function botChallengeOf({
  addresses,
  secrets,
  environment,
}: Pick<ServiceContext, "addresses" | "secrets" | "environment">) {
  if (environment.settings.LOCAL_BOT_CHALLENGE !== "on") return null;
  const secret = turnstileSecret(secrets);
  return {
    service: {
      TURNSTILE_SITE_KEY: siteKey,
      TURNSTILE_SECRET: secret,
      TURNSTILE_HOSTNAMES: new URL(addresses.base).hostname,
    },
    identity: {
      GOTRUE_SECURITY_CAPTCHA_ENABLED: "true",
      GOTRUE_SECURITY_CAPTCHA_PROVIDER: "turnstile",
      GOTRUE_SECURITY_CAPTCHA_SECRET: secret,
      GOTRUE_SECURITY_CAPTCHA_VERIFIER_URL: `${addresses.turnstile}/turnstile/v0/siteverify`,
    },
    web: { TURNSTILE_SITE_KEY: siteKey, TURNSTILE_ORIGIN: addresses.turnstile },
  };
}
