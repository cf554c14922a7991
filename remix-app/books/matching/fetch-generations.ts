import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { callAsMember, type StudioMember } from "../../studio/studio-reader.ts";
import { costSources } from "../importer/cost-sources.ts";
import { openRouter } from "../importer/openrouter.ts";
import type { CostSource } from "../importer/read-report.ts";
import { FailedReport } from "../importer/request-page.ts";
import { type GenerationCall, type GenerationCost, requestGeneration } from "./generation.ts";

/** What became of a request for the costs of calls. */
export type GenerationsOutcome = {
  /** How many calls OpenRouter answered. */
  answered: number;
  /** How many of them OpenRouter doesn't know. */
  unknown: number;
  /** How many calls of the request are still to be asked. */
  remaining: number;
  /** Set if calls with an answer are asked again: those without one since this time. */
  observedBefore: string | null;
  failure: { message: string; retryAfterSeconds: number } | null;
};

const maxCalls = 200;
const parallelRequests = 4;
/** How many calls may fail before no further request begins, so that single calls that always fail don't block others. */
const maxFailures = 4;
/** A wrong key and a rate limit fail every call. */
const finalStatuses: ReadonlySet<number | null> = new Set([401, 403, 429]);
const requestTimeoutMs = 5_000;
/** When no further request begins. A person waits for the answer. */
const beginMs = 10_000;
const databaseTimeoutMs = 30_000;

const listSchema = z.object({
  outcome: z.literal("listed"),
  calls: z.array(z.object({ runId: z.uuid(), generationId: z.string() })),
  remaining: z.number().int(),
});
const storeSchema = z.object({ outcome: z.literal("stored") });

/**
 * Asks OpenRouter for the costs of a UTC day's calls that have none yet, and stores its answers. With `observedBefore` in
 * the form, asks again for all calls without an answer since then. Stores what was answered before a failure.
 * @throws Response 400 INVALID_REQUEST unless this server has OpenRouter's key, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function fetchGenerations(
  context: AppLoadContext,
  { reader: member, day, form }: { reader: StudioMember; day: string; form: FormData },
): Promise<GenerationsOutcome> {
  const { requestId, clientAddress: ip } = context;
  const source = findSource(context);
  if (!source) {
    throw problem("INVALID_REQUEST", { requestId, detail: `This server has no ${openRouter.settings.key}.` });
  }
  const time = Date.parse(z.iso.datetime({ offset: true }).safeParse(form.get("observedBefore")).data ?? "");
  // Postgres refuses some times that ISO 8601 allows.
  const observedBefore = time > 0 ? new Date(time).toISOString() : null;
  const args = { of_day: day, asked_before: observedBefore, max_calls: maxCalls };
  const call = { member, name: "list_unmatched_generations", args, schema: listSchema };
  const { calls, remaining } = await callGenerations(context, call);
  const { costs, failure } = await requestGenerations(source, { calls });
  if (costs.length > 0) {
    const args = { of_day: day, answers: costs, change: { reason: "Ask OpenRouter", requestId, ip } };
    await callGenerations(context, { member, name: "store_generation_costs", args, schema: storeSchema });
  }
  return {
    answered: costs.length,
    unknown: costs.filter(({ costUsd }) => costUsd === null).length,
    remaining: calls.length - costs.length + remaining,
    observedBefore,
    failure: failure && { message: failure.message, retryAfterSeconds: failure.retryAfterSeconds },
  };
}

/** Returns OpenRouter with this server's key, or undefined if it has none. */
export function findSource({ env }: Pick<AppLoadContext, "env">): CostSource | undefined {
  return costSources(env).find(({ provider }) => provider === openRouter);
}

/** Calls a function of the comparison with OpenRouter. @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function callGenerations<Schema extends z.ZodType<{ outcome: string }>>(
  context: AppLoadContext,
  { schema, ...call }: { member: StudioMember; name: string; args: object; schema: Schema },
): Promise<z.output<Schema>> {
  const refused = z.object({ outcome: z.literal("not_allowed") });
  const options = { ...call, schema: z.union([schema, refused]), timeoutMs: databaseTimeoutMs };
  const answer = await callAsMember(context, options);
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
  return answer as z.output<Schema>;
}

/**
 * Asks OpenRouter about calls, a few at a time. An unreadable answer leaves out its call. A refused key, a rate limit or
 * several other failures end the requests.
 */
export async function requestGenerations(
  source: Pick<CostSource, "baseUrl" | "key">,
  {
    calls,
    timeoutMs = requestTimeoutMs,
    now = Date.now,
  }: { calls: readonly GenerationCall[]; timeoutMs?: number; now?: () => number },
): Promise<{ costs: GenerationCost[]; failure: FailedReport | null }> {
  const costs: GenerationCost[] = [];
  const failures: FailedReport[] = [];
  const { signal } = new AbortController();
  const isStopped = () =>
    failures.some(({ status }) => finalStatuses.has(status)) ||
    failures.filter(({ status }) => status !== 200).length >= maxFailures;
  const end = now() + beginMs;
  const queue = calls.values();
  const ask = async (): Promise<void> => {
    for (const call of queue) {
      if (isStopped() || now() >= end) return;
      try {
        costs.push(await requestGeneration(source, { call, signal, timeoutMs }));
      } catch (error) {
        if (!(error instanceof FailedReport)) throw error;
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: parallelRequests }, ask));
  return { costs, failure: failures.find(({ status }) => status !== 200) ?? failures[0] ?? null };
}
