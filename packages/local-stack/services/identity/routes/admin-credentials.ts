import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../core/deps.ts";
import { removeFactor, renameFactor, requireFactor } from "../core/factors.ts";
import { deletePasskey, listPasskeys, wirePasskey } from "../core/passkeys.ts";
import { listFactors, wireFactor } from "../core/wire-user.ts";
import { requireAdmin } from "../http/bearer.ts";
import { readJson, text } from "../http/body.ts";
import type { Env, Request } from "../http/context.ts";
import { requirePathUser } from "./admin-users.ts";

const renameBody = z.looseObject({ friendly_name: text, phone: text });

/** Serves factors and passkeys of any account to administrators. */
export function adminCredentialRoutes(deps: Deps): Hono<Env> {
  const accountOf = async (c: Request) => {
    await requireAdmin(c, deps);
    return requirePathUser(deps, c.req.param("userId") ?? "");
  };
  const factorOf = async (c: Request) => {
    const { id: userId } = await accountOf(c);
    return requireFactor(deps.db, { id: c.req.param("factorId") ?? "", userId });
  };
  return new Hono<Env>()
    .get("/admin/users/:userId/factors", async (c) => {
      const { id } = await accountOf(c);
      return c.json((await listFactors(deps.db, id)).map(wireFactor));
    })
    .delete("/admin/users/:userId/factors/:factorId", async (c) => {
      const factor = await factorOf(c);
      await removeFactor(deps, factor);
      return c.json(wireFactor(factor));
    })
    .put("/admin/users/:userId/factors/:factorId", async (c) => {
      const factor = await factorOf(c);
      const { friendly_name: name } = await readJson(c, renameBody);
      return c.json(wireFactor(await renameFactor(deps, factor, name)));
    })
    .get("/admin/users/:userId/passkeys", async (c) => {
      const { id } = await accountOf(c);
      return c.json((await listPasskeys(deps.db, id)).map(wirePasskey));
    })
    .delete("/admin/users/:userId/passkeys/:passkeyId", async (c) => {
      const { id: userId } = await accountOf(c);
      await deletePasskey(deps, { id: c.req.param("passkeyId") ?? "", userId });
      return c.body(null, 204);
    });
}
