import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { invalid } from "../core/errors.ts";
import { parseChallenge } from "../core/pkce.ts";
import { endSession, endSessions } from "../core/sessions.ts";
import { updateOwnUser } from "../core/user-update.ts";
import { loadWireUser } from "../core/wire-user.ts";
import { requireUser } from "../http/bearer.ts";
import { metadata, optionalText, readJson, text } from "../http/body.ts";
import type { Env } from "../http/context.ts";
import { type AddressLimits, limitAddress } from "../http/limits.ts";
import { redirectTarget } from "../http/redirect-to.ts";

const updateBody = z.looseObject({
  email: text,
  phone: text,
  password: optionalText,
  current_password: text,
  nonce: text,
  data: metadata,
  app_metadata: metadata,
  code_challenge: text,
  code_challenge_method: text,
});

/** Serves a user's own account and sessions. */
export function userRoutes(deps: Deps, limits: AddressLimits): Hono<Env> {
  return new Hono<Env>()
    .get("/user", async (c) => {
      const { user, claims, aud } = await requireUser(c, deps);
      const [claimedAudience] = [claims.aud].flat();
      if (!claimedAudience || claimedAudience !== aud) throw invalid("Token audience doesn't match request audience");
      return c.json(await loadWireUser(deps.db, user));
    })
    .put("/user", async (c) => {
      const { user, session } = await requireUser(c, deps);
      limitAddress(c, { deps, limits, name: "user" });
      const input = await readJson(c, updateBody);
      if (input.phone) throw invalid("Phone numbers are not supported");
      const updated = await updateOwnUser(
        { deps, user, session },
        {
          email: input.email,
          password: input.password,
          currentPassword: input.current_password,
          nonce: input.nonce,
          data: input.data,
          appMetadata: input.app_metadata,
          challenge: parseChallenge(input.code_challenge, input.code_challenge_method),
          redirectTo: redirectTarget(c, deps),
        },
      );
      return c.json(await loadWireUser(deps.db, updated));
    })
    .post("/logout", async (c) => {
      const { user, session } = await requireUser(c, deps);
      const scope = c.req.query("scope") || "global";
      if (!["global", "local", "others"].includes(scope)) throw invalid(`Unsupported logout scope "${scope}"`);
      // A token without a session can only end all of the user's sessions.
      if (scope === "local" && session) await endSession(deps.db, session.id);
      else if (scope === "others" && session) await endSessions(deps.db, { userId: user.id, exceptId: session.id });
      else await endSessions(deps.db, { userId: user.id });
      return c.body(null, 204);
    });
}
