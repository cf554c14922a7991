import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { AuthError, invalid } from "../core/errors.ts";
import { registerPasskey, signInWithPasskey } from "../core/passkey-verify.ts";
import {
  authenticationOptions,
  deletePasskey,
  listPasskeys,
  registrationOptions,
  renamePasskey,
  requirePasskeyId,
  requirePasskeyLevel,
  wirePasskey,
} from "../core/passkeys.ts";
import { requireUser } from "../http/bearer.ts";
import { readJson, text } from "../http/body.ts";
import { requireCaptcha } from "../http/captcha.ts";
import { callerOf } from "../http/client-address.ts";
import type { Env, Request } from "../http/context.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";
import { tokenAnswer } from "../http/signed-in.ts";

const verifyBody = z.looseObject({ challenge_id: text, credential: z.unknown().optional() });
const renameBody = z.looseObject({ friendly_name: text });

async function readAttempt(c: Request) {
  const { challenge_id: challengeId, credential } = await readJson(c, verifyBody);
  if (!challengeId) throw invalid("challenge_id is required");
  if (credential === undefined || credential === null) throw invalid("credential is required");
  return { challengeId, credential };
}

/** Serves passkey sign-in, and a user's own passkeys. */
export function passkeyRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  const requireRegistrar = async (c: Request) => {
    const { user, session, claims } = await requireUser(c, deps);
    if (claims.is_anonymous === true) {
      throw new AuthError(403, "no_authorization", "Anonymous user not allowed to perform these actions");
    }
    if (user.is_sso_user) throw new AuthError(422, "validation_failed", "SSO users cannot register passkeys");
    await requirePasskeyLevel(deps, { user, session });
    return user;
  };
  const owned = (c: Request, userId: string) => ({ id: c.req.param("passkeyId") ?? "", userId });
  const routes = new Hono<Env>();
  routes.use("/passkeys/*", async (_c, next) => {
    if (!deps.config.GOTRUE_PASSKEY_ENABLED) throw new AuthError(404, "passkey_disabled", "Passkeys are disabled");
    await next();
  });
  return routes
    .post("/passkeys/authentication/options", async (c) => {
      limitAddress(c, { deps, limits, name: "passkey" });
      await requireCaptcha(c, deps);
      return c.json(await authenticationOptions(deps));
    })
    .post("/passkeys/authentication/verify", async (c) => {
      const attempt = await readAttempt(c);
      return tokenAnswer(c, await signInWithPasskey(deps, { ...attempt, caller: callerOf(c, deps) }));
    })
    .post("/passkeys/registration/options", async (c) => {
      return c.json(await registrationOptions(deps, await requireRegistrar(c)));
    })
    .post("/passkeys/registration/verify", async (c) => {
      const user = await requireRegistrar(c);
      const { id, friendly_name, created_at } = await registerPasskey(deps, { user, ...(await readAttempt(c)) });
      return c.json({ id, friendly_name, created_at });
    })
    .get("/passkeys", async (c) => {
      const { user } = await requireUser(c, deps);
      return c.json((await listPasskeys(deps.db, user.id)).map(wirePasskey));
    })
    .patch("/passkeys/:passkeyId", async (c) => {
      const { user } = await requireUser(c, deps);
      requirePasskeyId(c.req.param("passkeyId"));
      const { friendly_name: name } = await readJson(c, renameBody);
      return c.json(wirePasskey(await renamePasskey(deps, owned(c, user.id), name)));
    })
    .delete("/passkeys/:passkeyId", async (c) => {
      const { user, session } = await requireUser(c, deps);
      await requirePasskeyLevel(deps, { user, session });
      await deletePasskey(deps, owned(c, user.id));
      return c.body(null, 204);
    });
}
