import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { AuthError, unexpected } from "../core/errors.ts";
import { requireAdmin } from "./bearer.ts";
import { readJson } from "./body.ts";
import { callerOf } from "./client-address.ts";
import type { Request } from "./context.ts";

const verifiers = {
  hcaptcha: "https://hcaptcha.com/siteverify",
  turnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
} as const;

const meta = z
  .looseObject({
    gotrue_meta_security: z.looseObject({ captcha_token: z.string().nullish() }).nullish(),
  })
  .transform((body) => body.gotrue_meta_security?.captcha_token?.trim() ?? "");

const verdict = z.looseObject({
  success: z.boolean(),
  "error-codes": z.array(z.string()).nullish(),
});

/**
 * Sends the token in the body to the bot challenge's verifier. Administrators need no token.
 * @throws AuthError 400 captcha_failed; 500 if the verifier cannot be reached
 */
export async function requireCaptcha(c: Request, deps: Deps): Promise<void> {
  const { config } = deps;
  if (!config.GOTRUE_SECURITY_CAPTCHA_ENABLED) return;
  const isAdmin = await requireAdmin(c, deps).then(
    () => true,
    () => false,
  );
  if (isAdmin) return;
  const token = await readJson(c, meta);
  if (!token) {
    throw new AuthError(400, "captcha_failed", "captcha protection: request disallowed (no captcha_token found)");
  }
  const answer = await ask(deps, token, callerOf(c, deps).ip);
  if (answer.success) return;
  const codes = (answer["error-codes"] ?? []).join(", ");
  throw new AuthError(400, "captcha_failed", `captcha protection: request disallowed (${codes})`);
}

async function ask({ config }: Deps, token: string, ip: string) {
  const url = config.GOTRUE_SECURITY_CAPTCHA_VERIFIER_URL || verifiers[config.GOTRUE_SECURITY_CAPTCHA_PROVIDER];
  try {
    const response = await fetch(url, {
      method: "POST",
      body: new URLSearchParams({ secret: config.GOTRUE_SECURITY_CAPTCHA_SECRET, response: token, remoteip: ip }),
      signal: AbortSignal.timeout(config.GOTRUE_SECURITY_CAPTCHA_TIMEOUT),
    });
    return verdict.parse(await response.json());
  } catch (error) {
    throw unexpected("captcha verification process failed", error);
  }
}
