import type { Deps } from "../core/deps.ts";
import { AuthError } from "../core/errors.ts";
import { type TokenBuckets, tokenBuckets } from "../core/rate-window.ts";
import { forwardedAddress } from "./client-address.ts";
import type { Request } from "./context.ts";

const burst = 30;
const fiveMinutesS = 300;

const limited = [
  "recover",
  "resend",
  "magiclink",
  "otp",
  "signup",
  "user",
  "verify",
  "token",
  "passkey",
  "factorChallenge",
  "factorVerify",
] as const;
export type Limited = (typeof limited)[number];
export type AddressLimits = Record<Limited, TokenBuckets>;

/** Creates token buckets for each limited route: a burst of 30, refilled as configured. */
export function addressLimits({ config, clock }: Pick<Deps, "config" | "clock">): AddressLimits {
  const perSecond = (name: Limited): number => {
    switch (name) {
      case "verify":
        return config.GOTRUE_RATE_LIMIT_VERIFY / fiveMinutesS;
      case "token":
        return config.GOTRUE_RATE_LIMIT_TOKEN_REFRESH / fiveMinutesS;
      case "passkey":
        return config.GOTRUE_RATE_LIMIT_PASSKEY / fiveMinutesS;
      case "factorChallenge":
      case "factorVerify":
        return config.GOTRUE_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY / 60;
      default:
        return config.GOTRUE_RATE_LIMIT_OTP / fiveMinutesS;
    }
  };
  return Object.fromEntries(
    limited.map((name) => [name, tokenBuckets({ burst, perSecond: perSecond(name) }, clock)]),
  ) as AddressLimits;
}

/**
 * Counts a request against its client's address. If no header for the address is configured, nothing is limited.
 * @throws AuthError 429 over_request_rate_limit
 */
export function limitAddress(c: Request, { deps, limits, name }: { deps: Deps; limits: AddressLimits; name: Limited }) {
  const { GOTRUE_RATE_LIMIT_HEADER: header } = deps.config;
  const named = header ? c.req.header(header)?.split(",")[0]?.trim() : undefined;
  const key = forwardedAddress(c, deps) ?? named;
  if (key && !limits[name].take(key)) {
    throw new AuthError(429, "over_request_rate_limit", "Request rate limit reached");
  }
}
