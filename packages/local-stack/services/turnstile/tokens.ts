import { randomBytes } from "node:crypto";

/** The same lifetime as Turnstile's own tokens. */
const lifetimeMs = 300_000;

export interface IssuedToken {
  hostname: string;
  issuedAt: Date;
}

export type Redemption = { status: "good"; token: IssuedToken } | { status: "unknown" } | { status: "used-or-old" };

/** Issues tokens to visitors who passed. Each token is valid for one verification. */
export function createTokens(clock: () => Date = () => new Date()) {
  const issued = new Map<string, IssuedToken & { used: boolean }>();
  return {
    issue(hostname: string): string {
      const text = `local.${randomBytes(24).toString("base64url")}`;
      issued.set(text, { hostname, issuedAt: clock(), used: false });
      return text;
    },
    redeem(text: string): Redemption {
      const token = issued.get(text);
      if (!token) return { status: "unknown" };
      if (token.used || clock().getTime() - token.issuedAt.getTime() > lifetimeMs) return { status: "used-or-old" };
      token.used = true;
      return { status: "good", token };
    },
  };
}
