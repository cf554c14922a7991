import { AsyncLocalStorage } from "node:async_hooks";
import type { AnyAST } from "@supabase/lite";

/** For whom a statement runs and what it may know of the request: becomes transaction-local settings. */
export type RequestContext = {
  claims: Record<string, unknown>;
  method: string;
  path: string;
  headers: Record<string, string>;
  /** The schema that the request asks for by `Accept-Profile` or `Content-Profile`. */
  schema: string;
  /** What the request does, once it is parsed. */
  plan?: AnyAST;
};

/** The request that is being served: the App underneath has no place of its own to carry these. */
export const requestContext = new AsyncLocalStorage<RequestContext>();

/** The database role of the request. A token without one is treated as anonymous, as PostgREST does. */
export function roleOf({ claims }: RequestContext): string {
  return typeof claims.role === "string" && claims.role !== "" ? claims.role : "anon";
}
