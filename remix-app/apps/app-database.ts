import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient, policyTimeoutMs } from "../supabase/data-api.ts";

/** How long a caller should wait before a retry after a failed lookup. */
const retryAfterOutageSeconds = 5;

type CallContext = Pick<AppLoadContext, "env" | "requestId">;

/**
 * Returns the response to a failed lookup: 503, so that the caller retries. A failed lookup grants nothing and ends no
 * session.
 */
export function appsUnavailable({ requestId }: { requestId: string }): Response {
  return problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": String(retryAfterOutageSeconds) } });
}

/**
 * Calls a function as the server itself and parses its result.
 * @param options.area the function's schema, `private` by default
 * @throws Response 503 AUTH_UNAVAILABLE if the database does not answer or returns an unexpected result
 */
export async function callAppFunction<Schema extends z.ZodType>(
  context: CallContext,
  {
    area = "private",
    name,
    args,
    schema,
  }: { area?: "ai" | "private" | undefined; name: string; args: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema>> {
  const client = createServiceClient(context.env, { timeoutMs: policyTimeoutMs });
  const { data, error } = await client.schema(area).rpc(name, args);
  const answer = schema.safeParse(data);
  if (!error && answer.success) return answer.data;
  logError(`${area}.${name} failed: ${error?.code ?? "unexpected answer"}`, { requestId: context.requestId });
  throw appsUnavailable(context);
}

/** Returns the schema of a refusal by a database function, for the reasons that the function may give. */
export function createRefusalSchema<const Reasons extends readonly [string, ...string[]]>(...reasons: Reasons) {
  return z.object({ refused: z.enum(reasons) });
}
