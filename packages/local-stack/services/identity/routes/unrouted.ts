import type { Deps } from "../core/deps.ts";
import { requireAdmin, requireUser } from "../http/bearer.ts";
import type { Request } from "../http/context.ts";
import { requirePathUser } from "./admin-users.ts";
import { requireOwnFactor } from "./factors.ts";
import { requireManualLinking } from "./oauth.ts";

/**
 * Answers requests without a route: 405 if `methods` has the path, otherwise 404. Unauthorized callers are refused
 * first, so that they cannot tell whether a path exists.
 * @throws AuthError if one of the checks below refuses the request
 */
export async function answerUnrouted(
  c: Request,
  { deps, methods }: { deps: Deps; methods: readonly string[] },
): Promise<Response> {
  const [, area = "", part = "", id = ""] = c.req.path.split("/");
  switch (area) {
    case "reauthenticate":
      await requireUser(c, deps);
      break;
    case "user":
      await requireUser(c, deps);
      if (part === "identities") requireManualLinking(deps);
      break;
    case "factors":
      if (part) await requireOwnFactor(c, deps, part);
      else await requireUser(c, deps);
      break;
    case "passkeys":
      if (part && part !== "authentication") await requireUser(c, deps);
      break;
    case "admin":
      await requireAdmin(c, deps);
      if (part === "users" && id) await requirePathUser(deps, id);
  }
  if (methods.length > 0) return new Response(null, { status: 405, headers: { Allow: methods.join(", ") } });
  return c.text("404 page not found\n", 404);
}
