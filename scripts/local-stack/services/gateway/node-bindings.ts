import type { HttpBindings } from "@hono/node-server";

/** What Node's server passes to a handler in addition to the request. */
export type NodeBindings = { Bindings: HttpBindings };
