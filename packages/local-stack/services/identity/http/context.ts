import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { Deps } from "../core/deps.ts";

export type Env = {
  Bindings: HttpBindings;
  Variables: {
    requestId: string;
    /** The parsed body, after it has been read. */
    body?: unknown;
  };
};
export type Request = Context<Env>;

/** Returns a request's audience: from its header, or the configured one. */
export function requestAudience(c: Request, deps: Deps): string {
  return c.req.header("x-jwt-aud") || deps.config.GOTRUE_JWT_AUD;
}
