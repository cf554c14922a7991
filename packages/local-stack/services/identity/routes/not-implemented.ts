import { Hono } from "hono";
import { AuthError } from "../core/errors.ts";
import type { Env } from "../http/context.ts";

/** Paths that Supabase Auth serves and this server does not. They get 501 instead of 404. */
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

/** Answers 501 for the paths that this server does not implement, for any method. */
export function notImplementedRoutes(): Hono<Env> {
  const routes = new Hono<Env>();
  for (const path of paths) {
    routes.all(path, (c) => {
      throw new AuthError(501, "not_implemented", `The local identity server does not implement ${c.req.path}`);
    });
  }
  return routes;
}
