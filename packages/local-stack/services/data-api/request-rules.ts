import type { AnyAST } from "@supabase/lite";
import type { RequestContext } from "./request-context.ts";
import type { Introspection } from "./schema-cache.ts";

/**
 * Returns whether a request changes or deletes rows without a filter. Hosted Supabase refuses such requests with the
 * extension `safeupdate`, which it loads for the Data API's role. A limit counts as a filter, since PostgREST puts it
 * into the statement's WHERE.
 */
export function isUnfiltered({ type, where, limit }: AnyAST): boolean {
  return (type === "update" || type === "delete") && limit === undefined && Object.keys(where ?? {}).length === 0;
}

/**
 * Returns whether a request's transaction is read-only. GET and HEAD always are. A POST is if it calls a STABLE or
 * IMMUTABLE function (PostgREST, "Transactions", "Access Mode").
 */
export function isReadOnly({ method, plan }: RequestContext, schema: Introspection): boolean {
  if (method === "GET" || method === "HEAD") return true;
  if (plan?.type !== "rpc") return false;
  const { args } = plan;
  const argumentNames = args === undefined || Array.isArray(args) ? [] : Object.keys(args);
  const overloads = (schema.functions ?? []).filter(
    (candidate) =>
      candidate.name === plan.function && candidate.schema === (plan.schema ?? schema.default_schema ?? "public"),
  );
  const called = overloads.filter(
    ({ arg_names, arg_defaults }) =>
      argumentNames.every((name) => arg_names.includes(name)) &&
      arg_names.slice(0, arg_names.length - arg_defaults).every((name) => argumentNames.includes(name)),
  );
  // No overload matches by name if the function takes the whole body as its one unnamed argument. In that case,
  // considers all overloads.
  const candidates = called.length > 0 ? called : overloads;
  return candidates.length > 0 && candidates.every(({ volatility }) => volatility !== "v");
}
