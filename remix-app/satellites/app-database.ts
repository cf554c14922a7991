import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { createServiceClient, policyTimeoutMs } from "../supabase/data-api.ts";

/** After a failed lookup: when a caller may come again. */
const retryAfterOutageSeconds = 5;

type CallContext = Pick<AppLoadContext, "env" | "requestId">;

/** Nothing could be found out, so nothing is granted, and nobody is signed out by it. */
export function appsUnavailable({ requestId }: { requestId: string }): Response {
  return problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": String(retryAfterOutageSeconds) } });
}

/**
 * Calls one function of the handoff (schema private) as the server itself and reads its answer.
 * @throws Response 503 AUTH_UNAVAILABLE where the database did not answer, or not as it should
 */
export async function callAppFunction<Schema extends z.ZodType>(
  context: CallContext,
  { name, args, schema }: { name: string; args: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema>> {
  const { data, error } = await createServiceClient(context.env)
    .schema("private")
    .rpc(name, args)
    .abortSignal(AbortSignal.timeout(policyTimeoutMs));
  const answer = schema.safeParse(data);
  if (!error && answer.success) return answer.data;
  console.error(`error request=${context.requestId} private.${name} failed: ${error?.code ?? "unexpected answer"}`);
  throw appsUnavailable(context);
}

/** A refusal as the functions return it, by one of its reasons. */
export function refusalOf<const Reasons extends readonly [string, ...string[]]>(...reasons: Reasons) {
  return z.object({ refused: z.enum(reasons) });
}
