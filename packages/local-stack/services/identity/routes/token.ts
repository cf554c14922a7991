import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { signInWithPassword } from "../core/password-grant.ts";
import { exchangeCode } from "../core/pkce-grant.ts";
import { refresh } from "../core/refresh.ts";
import type { SignedIn } from "../core/tokens.ts";
import { readJson, text } from "../http/body.ts";
import { requireCaptcha } from "../http/captcha.ts";
import { callerOf } from "../http/client-address.ts";
import { type Env, type Request, requestAudience } from "../http/context.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";
import { tokenAnswer } from "../http/signed-in.ts";

const passwordBody = z.looseObject({ email: text, phone: text, password: text });
const refreshBody = z.looseObject({ refresh_token: text });
const pkceBody = z.looseObject({ auth_code: text, code_verifier: text });

const uncaptchaed = ["refresh_token", "pkce", "id_token"];

/** Serves grants, which exchange credentials for a session. */
export function tokenRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  const grants: Record<string, (c: Request) => Promise<SignedIn>> = {
    async password(c) {
      const { email, phone, password } = await readJson(c, passwordBody);
      if (email && phone) throw invalid("Only an email address or phone number should be provided on login.");
      if (phone) throw new AuthError(422, "phone_provider_disabled", "Phone logins are disabled");
      return signInWithPassword(deps, { email, password, aud: requestAudience(c, deps), caller: callerOf(c, deps) });
    },
    async refresh_token(c) {
      const { refresh_token: refreshToken } = await readJson(c, refreshBody);
      return refresh(deps, { refreshToken, caller: callerOf(c, deps) });
    },
    async pkce(c) {
      const { auth_code: code, code_verifier: verifier } = await readJson(c, pkceBody);
      return exchangeCode(deps, { code, verifier, caller: callerOf(c, deps) });
    },
  };
  return new Hono<Env>().post("/token", async (c) => {
    const grantType = c.req.query("grant_type") ?? "";
    if (!uncaptchaed.includes(grantType)) await requireCaptcha(c, deps);
    if (grantType === "id_token" || grantType === "web3") {
      throw new AuthError(501, "not_implemented", `The local identity server has no ${grantType} grant`);
    }
    const grant = Object.hasOwn(grants, grantType) ? grants[grantType] : undefined;
    if (!grant) throw new AuthError(400, "invalid_credentials", "unsupported_grant_type");
    limitAddress(c, { deps, limits, name: "token" });
    return tokenAnswer(c, await grant(c));
  });
}
