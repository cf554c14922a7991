import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import type { AuditedChange } from "../../studio/costs/platform-book.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { amountText } from "../../ui/format-amount.ts";
import type { CostSource } from "../importer/read-report.ts";
import { fetchHours } from "./fetch-hours.ts";

/** Enough to read a day of a hundred thousand runs. */
const timeoutMs = 30_000;

const count = z.number().int();
const counts = z.object({
  /** Null if the provider does not state it. */
  requests: count.nullable(),
  inputTokens: count,
  cachedInputTokens: count,
  cacheWriteTokens: count,
  outputTokens: count,
});
export type Counts = z.output<typeof counts>;

const hourLine = z.object({
  /** The start of the hour. */
  hour: z.string(),
  model: z.string(),
  /** Whether a call of the day used the model. */
  isKnown: z.boolean(),
  differs: z.boolean(),
  calls: count,
  stated: counts,
  metered: counts,
  keys: z.array(
    counts.pick({ requests: true, inputTokens: true, outputTokens: true }).extend({
      keyId: z.string().nullable(),
      /** The provider's name of the model. */
      model: z.string(),
      isCounted: z.boolean(),
    }),
  ),
});
export type HourLine = z.output<typeof hourLine>;

const usedKey = counts.pick({ inputTokens: true, outputTokens: true }).extend({
  keyId: z.string().nullable(),
  isMarked: z.boolean(),
  /** Whether its usage is compared with the calls. */
  isCounted: z.boolean(),
});
export type UsedKey = z.output<typeof usedKey>;

const hourCall = z.object({
  runId: z.uuid(),
  createdAt: z.string(),
  workspaceId: z.uuid(),
  /** Null if the workspace was deleted. */
  workspaceName: z.string().nullable(),
  requests: count,
  inputTokens: count,
  cachedInputTokens: count,
  outputTokens: count,
  costUsd: amountText,
  note: z.enum(["closed", "estimated", "uncounted"]).nullable(),
});
export type HourCall = z.output<typeof hourCall>;

export const comparedHours = z.object({
  /** Null if the provider was not asked about the day. */
  observedAt: z.string().nullable(),
  keys: z.array(usedKey),
  lines: z.array(hourLine),
  calls: z.object({ hour: z.string(), model: z.string(), total: count, records: z.array(hourCall) }).nullable(),
});
export type ComparedHours = z.output<typeof comparedHours>;

const refused = z.object({ refused: z.literal("forbidden") });
const changed = z.union([refused, z.object({})]);

/** A line whose calls are listed, and how many of them to skip. */
export type ChosenLine = { hour: string; model: string; skip: number };

/** Reads the chosen line from a URL. Returns null for the line with the largest difference. */
export function readChosenLine(url: URL, day: string): ChosenLine | null {
  const { hour, model, skip } = Object.fromEntries(url.searchParams);
  const chosen = z.object({
    hour: z.string().regex(/^([01]\d|2[0-3])$/),
    model: z.string().min(1).max(256),
    skip: z.coerce.number().int().min(0).max(10_000_000).default(0),
  });
  const read = chosen.safeParse({ hour, model, skip });
  return read.success ? { ...read.data, hour: `${day}T${read.data.hour}:00:00Z` } : null;
}

type Day = { member: StudioMember; provider: string; day: string };

/**
 * Compares what a provider counted in the hours of a day with the calls of the day.
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function compareHours(
  context: AppLoadContext,
  { member, provider, day, line }: Day & { line: ChosenLine | null },
): Promise<ComparedHours> {
  const args = {
    actor: member.userId,
    of_provider: provider,
    of_day: day,
    ...(line && { of_hour: line.hour, of_model: line.model, skip: line.skip }),
  };
  const schema = z.union([refused, comparedHours]);
  const answer = await callFunction(context, { name: "private.compare_usage_hours", args, schema, timeoutMs });
  if ("refused" in answer) throw forbidden(context);
  return answer;
}

/**
 * Asks a provider for the hours of a day and stores them. If it fails, nothing changes.
 * @throws FailedReport; Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function requestHours(
  context: AppLoadContext,
  { source, member, provider, day }: Day & { source: CostSource },
): Promise<void> {
  const hours = await fetchHours(source, { day });
  const change = changeBy(context, { member, reason: `Asked ${source.provider.name} for its hours` });
  const args = { of_provider: provider, of_day: day, hours, change };
  const answer = await callFunction(context, { name: "private.store_usage_hours", args, schema: changed });
  if ("refused" in answer) throw forbidden(context);
}

/**
 * Marks a provider's key as used only by this gateway, or removes the mark.
 * @throws Response 400 INVALID_REQUEST, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function markGatewayKey(
  context: AppLoadContext,
  { member, provider, form }: { member: StudioMember; provider: string; form: FormData },
): Promise<void> {
  const fields = z.object({ keyId: z.string().regex(/^[^\p{Cc}\p{Cs}]{1,256}$/u), marked: z.enum(["true", "false"]) });
  const read = fields.safeParse(Object.fromEntries(form));
  if (!read.success) {
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail: "The form names no key." });
  }
  const marked = read.data.marked === "true";
  const reason = marked ? "Only this gateway uses the key" : "Others may use the key";
  const change = changeBy(context, { member, reason });
  const args = { of_provider: provider, of_key: read.data.keyId, marked, change };
  const answer = await callFunction(context, { name: "private.mark_gateway_key", args, schema: changed });
  if ("refused" in answer) throw forbidden(context);
}

function changeBy(
  { requestId, clientAddress: ip }: AppLoadContext,
  { member, reason }: { member: StudioMember; reason: string },
): AuditedChange & { actor: string } {
  return { actor: member.userId, reason, requestId, ip };
}

function forbidden({ requestId }: AppLoadContext): Response {
  return problem("FORBIDDEN", { requestId, detail: "You can’t use the platform’s books." });
}
