import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { parseEmail } from "../core/email-address.ts";
import { AuthError, invalid, unexpected } from "../core/errors.ts";
import { pkcePrefix } from "../core/one-time-tokens.ts";
import { withQuery } from "../core/redirect-url.ts";
import { type Credential, isVerifyType, type Redeemed, verify } from "../core/verify.ts";
import { readJson, text } from "../http/body.ts";
import { callerOf } from "../http/client-address.ts";
import { type Env, type Request, requestAudience } from "../http/context.ts";
import { asAuthError } from "../http/error-response.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";
import { errorTarget, messageTarget } from "../http/redirect-outcome.ts";
import { redirect, redirectTarget } from "../http/redirect-to.ts";
import { announce, fragmentUrl, tokenAnswer } from "../http/signed-in.ts";

const halfwayMessage = "Confirmation link accepted. Please proceed to confirm link sent to the other email";

const body = z.looseObject({ type: text, token: text, token_hash: text, email: text, phone: text, redirect_to: text });

/** Serves `/verify`, which redeems emailed tokens and codes. Emailed links use GET, and apps use POST. */
export function verifyRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  return new Hono<Env>()
    .post("/verify", async (c) => {
      limitAddress(c, { deps, limits, name: "verify" });
      const input = await readJson(c, body);
      if (!input.type) throw invalid("Verify requires a verification type");
      const credential = parseCredential(input);
      if (input.type === "sms" || input.type === "phone_change") {
        throw new AuthError(501, "not_implemented", "The local identity server knows no phones");
      }
      if (!isVerifyType(input.type)) throw invalid("Invalid email verification type");
      const redeemed = await verify(deps, {
        type: input.type,
        credential,
        aud: requestAudience(c, deps),
        caller: callerOf(c, deps),
        yields: "session",
      });
      return redeemed.kind === "signed-in"
        ? tokenAnswer(c, redeemed.signedIn)
        : c.json({ msg: halfwayMessage, code: "200" });
    })
    .get("/verify", async (c) => {
      limitAddress(c, { deps, limits, name: "verify" });
      const token = c.req.query("token") ?? "";
      const type = c.req.query("type") ?? "";
      if (!type) throw invalid("Verify requires a verification type");
      if (!token) throw invalid("Verify requires a token or a token hash");
      const pkce = token.startsWith(pkcePrefix);
      // Supabase Auth has no sign-in method for these types and fails with 500.
      if (pkce && (type === "email" || !isVerifyType(type))) throw unexpected("Unsupported verification type");
      const target = redirectTarget(c, deps);
      try {
        if (!isVerifyType(type)) throw invalid("Invalid email verification type");
        const redeemed = await verify(deps, {
          type,
          credential: { hash: token },
          aud: requestAudience(c, deps),
          caller: callerOf(c, deps),
          yields: pkce ? "code" : "session",
        });
        return redirect(c, outcomeTarget(c, { redeemed, target, type, pkce }), 303);
      } catch (error) {
        return redirect(c, errorTarget(target, asAuthError(error, c, deps.log), { inQuery: pkce }), 303);
      }
    });
}

function parseCredential(input: z.output<typeof body>): Credential {
  const { token, token_hash: hash, email, phone } = input;
  if (!token === !hash) throw invalid("Verify requires either a token or a token hash");
  if (hash) {
    if (email || phone || input.redirect_to) throw invalid("Only the token_hash and type should be provided");
    return { hash };
  }
  if (phone && !email) throw new AuthError(501, "not_implemented", "The local identity server knows no phones");
  if (!email || phone) throw invalid("Only an email address or phone number should be provided on verify");
  try {
    return { email: parseEmail(email), code: token };
  } catch {
    throw new AuthError(422, "validation_failed", "Invalid email format");
  }
}

type Outcome = { redeemed: Redeemed; target: string; type: string; pkce: boolean };

function outcomeTarget(c: Request, { redeemed, target, type, pkce }: Outcome): string {
  switch (redeemed.kind) {
    case "half":
      return messageTarget(target, halfwayMessage, { inQuery: pkce });
    case "code":
      return withQuery(target, { code: redeemed.code });
    case "signed-in":
      announce(c, redeemed.signedIn);
      return fragmentUrl(target, redeemed.signedIn, { type });
  }
}
