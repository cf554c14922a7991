import { Hono } from "hono";
import { z } from "zod";
import { isUuid } from "../core/admin-users.ts";
import type { Deps } from "../core/deps.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { verifyFactor } from "../core/factor-verify.ts";
import { challengeFactor, enrollTotp, requireFactor, unenroll } from "../core/factors.ts";
import type { Session } from "../core/sessions.ts";
import { type Authenticated, requireUser } from "../http/bearer.ts";
import { readJson, text } from "../http/body.ts";
import { callerOf } from "../http/client-address.ts";
import type { Env, Request } from "../http/context.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";

const enrollBody = z.looseObject({ friendly_name: text, factor_type: text, issuer: text, phone: text });
const verifyBody = z.looseObject({ challenge_id: text, code: text });

/**
 * Returns the user and the session of the access token. The token must name a session, because verifying a factor
 * raises the session's assurance level.
 * @throws AuthError 403 no_authorization, session_not_found
 */
async function requireAccountHolder(
  c: Request,
  deps: Deps,
): Promise<Omit<Authenticated, "session"> & { session: Session }> {
  const authenticated = await requireUser(c, deps);
  if (authenticated.claims.is_anonymous === true) {
    throw new AuthError(403, "no_authorization", "Anonymous user not allowed to perform these actions");
  }
  const { session } = authenticated;
  if (!session) throw new AuthError(403, "session_not_found", "A token that names a session is required");
  return { ...authenticated, session };
}

/** Returns one of the user's own factors. @throws AuthError 404 mfa_factor_not_found, validation_failed */
export async function requireOwnFactor(c: Request, deps: Deps, id: string) {
  const { user, session } = await requireAccountHolder(c, deps);
  return { session, factor: await requireFactor(deps.db, { id, userId: user.id }) };
}

/** Serves a user's own second factors. */
export function factorRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  const ownFactor = (c: Request) => requireOwnFactor(c, deps, c.req.param("factorId") ?? "");
  return new Hono<Env>()
    .post("/factors", async (c) => {
      const { user, session } = await requireAccountHolder(c, deps);
      const input = await readJson(c, enrollBody);
      if (input.factor_type === "phone" || input.factor_type === "webauthn") {
        throw new AuthError(501, "not_implemented", `The local identity server has no ${input.factor_type} factors`);
      }
      if (input.factor_type !== "totp") throw invalid("factor_type needs to be totp, phone, or webauthn");
      const { friendly_name: friendlyName, issuer } = input;
      return c.json(await enrollTotp(deps, { user, session, friendlyName, issuer }));
    })
    .post("/factors/:factorId/challenge", async (c) => {
      const { factor } = await ownFactor(c);
      limitAddress(c, { deps, limits, name: "factorChallenge" });
      return c.json(await challengeFactor(deps, { factor, caller: callerOf(c, deps) }));
    })
    .post("/factors/:factorId/verify", async (c) => {
      const { factor, session } = await ownFactor(c);
      limitAddress(c, { deps, limits, name: "factorVerify" });
      const { challenge_id: challengeId, code } = await readJson(c, verifyBody);
      if (challengeId && !isUuid(challengeId)) {
        throw new AuthError(400, "bad_json", "Could not parse request body as JSON: challenge_id: no UUID");
      }
      const id = challengeId || "00000000-0000-0000-0000-000000000000";
      const caller = callerOf(c, deps);
      // As in Supabase Auth, this response names neither user nor session in headers.
      return c.json((await verifyFactor(deps, { factor, session, challengeId: id, code, caller })).body);
    })
    .delete("/factors/:factorId", async (c) => {
      const { factor, session } = await ownFactor(c);
      await unenroll(deps, { factor, session });
      return c.json({ id: factor.id });
    });
}
