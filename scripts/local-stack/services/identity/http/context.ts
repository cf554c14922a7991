import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { Deps } from "../core/deps.ts";

export type Env = {
  Bindings: HttpBindings;
  Variables: {
    requestId: string;
    /** The parsed body, once it has been read. */
    body?: unknown;
  };
};
export type Request = Context<Env>;

/** The audience that a request is for: its header's, or the configured one. */
export function requestAudience(c: Request, deps: Deps): string {
  return c.req.header("x-jwt-aud") || deps.config.GOTRUE_JWT_AUD;
}
