import type { HttpBindings } from "@hono/node-server";

/** The Hono bindings of Node's server: its request and response. */
export type NodeBindings = { Bindings: HttpBindings };
