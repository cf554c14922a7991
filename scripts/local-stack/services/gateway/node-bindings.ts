import type { HttpBindings } from "@hono/node-server";

/** What Node's server hands to a handler besides the request. */
export type NodeBindings = { Bindings: HttpBindings };
