import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { parseEmail } from "../core/email-address.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { reauthenticate, recover, resend, sendMagicLink } from "../core/mail-requests.ts";
import { parseChallenge } from "../core/pkce.ts";
import { requireUser } from "../http/bearer.ts";
import { metadata, readJson, text } from "../http/body.ts";
import { requireCaptcha } from "../http/captcha.ts";
import { callerOf } from "../http/client-address.ts";
import { type Env, type Request, requestAudience } from "../http/context.ts";
import { type AddressLimits, type Limited, limitAddress } from "../http/limits.ts";
import { redirectTarget } from "../http/redirect-to.ts";

const recoverBody = z.looseObject({ email: text, code_challenge: text, code_challenge_method: text });
const resendBody = recoverBody.extend({ type: text, phone: text });
const magicLinkBody = recoverBody.extend({ data: metadata });
const otpBody = magicLinkBody.extend({
  phone: text,
  channel: text,
  create_user: z
    .boolean()
    .nullish()
    .transform((value) => value ?? true),
});

/** Serves requests for emails. */
export function mailRequestRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  const admit = async (c: Request, name: Limited) => {
    limitAddress(c, { deps, limits, name });
    await requireCaptcha(c, deps);
  };
  const common = (c: Request, input: z.output<typeof recoverBody>) => ({
    email: input.email,
    challenge: parseChallenge(input.code_challenge, input.code_challenge_method),
    aud: requestAudience(c, deps),
    redirectTo: redirectTarget(c, deps),
  });
  return new Hono<Env>()
    .post("/recover", async (c) => {
      await admit(c, "recover");
      if (!deps.config.GOTRUE_EXTERNAL_EMAIL_ENABLED) {
        throw new AuthError(400, "email_provider_disabled", "Email logins are disabled");
      }
      await recover(deps, common(c, await readJson(c, recoverBody)));
      return c.json({});
    })
    .post("/resend", async (c) => {
      await admit(c, "resend");
      const input = await readJson(c, resendBody);
      if (input.email && input.phone) throw invalid("Only an email address or phone number should be provided.");
      await resend(deps, { ...common(c, input), type: input.type });
      return c.json({});
    })
    .post("/otp", async (c) => {
      await admit(c, "otp");
      const input = await readJson(c, otpBody);
      if (input.email && input.phone) throw invalid("Only an email address or phone number should be provided");
      if (input.email && input.channel) throw invalid("Channel should only be specified with Phone OTP");
      if (input.phone) throw new AuthError(400, "phone_provider_disabled", "Unsupported phone provider");
      if (!input.email) throw invalid("One of email or phone must be set");
      await sendMagicLink(deps, {
        ...common(c, input),
        data: input.data ?? {},
        createUser: input.create_user,
        caller: callerOf(c, deps),
      });
      return c.json({});
    })
    .post("/magiclink", async (c) => {
      await admit(c, "magiclink");
      const input = await readJson(c, magicLinkBody);
      if (!input.email) throw new AuthError(422, "validation_failed", "Password recovery requires an email");
      const email = parseEmail(input.email);
      const request = { ...common(c, input), email, data: input.data ?? {}, createUser: true };
      await sendMagicLink(deps, { ...request, caller: callerOf(c, deps) });
      return c.json({});
    })
    .get("/reauthenticate", async (c) => {
      const { user } = await requireUser(c, deps);
      await reauthenticate(deps, { user, redirectTo: redirectTarget(c, deps) });
      return c.json({});
    });
}
