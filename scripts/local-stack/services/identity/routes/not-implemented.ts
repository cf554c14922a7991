import { Hono } from "hono";
import { AuthError } from "../core/errors.ts";
import type { Env } from "../http/context.ts";

/** What Supabase Auth has and this server does not: it says so, rather than seem not to know the address. */
const paths = [
  "/admin/audit",
  "/admin/custom-providers",
  "/admin/custom-providers/*",
  "/admin/oauth/*",
  "/admin/sso/*",
  "/oauth/*",
  "/sso",
  "/sso/*",
  "/scim/*",
  "/user/oauth/*",
  "/.well-known/oauth-authorization-server",
  "/.well-known/openid-configuration",
];

/** Each of these paths, by any method: 501. */
export function notImplementedRoutes(): Hono<Env> {
  const routes = new Hono<Env>();
  for (const path of paths) {
    routes.all(path, (c) => {
      throw new AuthError(501, "not_implemented", `The local identity server does not implement ${c.req.path}`);
    });
  }
  return routes;
}
