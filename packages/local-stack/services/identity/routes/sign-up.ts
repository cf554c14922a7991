import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { parseChallenge } from "../core/pkce.ts";
import { requireSignUps, signUp } from "../core/sign-up.ts";
import { metadata, readJson, text } from "../http/body.ts";
import { requireCaptcha } from "../http/captcha.ts";
import { callerOf } from "../http/client-address.ts";
import { type Env, requestAudience } from "../http/context.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";
import { redirectTarget } from "../http/redirect-to.ts";
import { tokenAnswer } from "../http/signed-in.ts";

const body = z.looseObject({
  email: text,
  phone: text,
  password: text,
  data: metadata,
  channel: text,
  code_challenge: text,
  code_challenge_method: text,
});

/**
 * Serves sign-up with a password. Refuses anonymous sign-up, as Supabase Auth does when anonymous sign-up is disabled.
 */
export function signUpRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  return new Hono<Env>().post("/signup", async (c) => {
    await requireCaptcha(c, deps);
    const input = await readJson(c, body);
    if (!input.email && !input.phone) {
      throw new AuthError(422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled");
    }
    limitAddress(c, { deps, limits, name: "signup" });
    if (!input.email) throw new AuthError(400, "phone_provider_disabled", "Phone signups are disabled");
    if (input.phone) throw invalid("Only an email address or phone number should be provided on signup.");
    requireSignUps(deps.config, input.password);
    const outcome = await signUp(deps, {
      email: input.email,
      password: input.password,
      data: input.data ?? {},
      challenge: parseChallenge(input.code_challenge, input.code_challenge_method),
      aud: requestAudience(c, deps),
      redirectTo: redirectTarget(c, deps),
      caller: callerOf(c, deps),
    });
    return "signedIn" in outcome ? tokenAnswer(c, outcome.signedIn) : c.json(outcome.user);
  });
}
