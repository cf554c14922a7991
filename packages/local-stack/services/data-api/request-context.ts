import { AsyncLocalStorage } from "node:async_hooks";
import type { AnyAST } from "@supabase/lite";

/**
 * The caller of a statement, and the request data that the statement may read. Both become transaction-local settings.
 */
export type RequestContext = {
  claims: Record<string, unknown>;
  method: string;
  path: string;
  headers: Record<string, string>;
  /** The schema that the request names in `Accept-Profile` or `Content-Profile`. */
  schema: string;
  /** The parsed request. */
  plan?: AnyAST;
};

/** The current request. Supabase Lite's App cannot pass it on as a parameter. */
export const requestContext = new AsyncLocalStorage<RequestContext>();

/** Returns the request's database role. A token without a role counts as anonymous, as in PostgREST. */
export function roleOf({ claims }: RequestContext): string {
  return typeof claims.role === "string" && claims.role !== "" ? claims.role : "anon";
}
