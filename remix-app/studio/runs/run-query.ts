import type { CsvColumn } from "../../http/csv.ts";
import { problem } from "../../http/problem.ts";
import { allTime, type Range, readRange } from "../range.ts";
import { pricingColumns } from "./pricing-columns.ts";
import { type RunFilter, type RunSort, type RunSummary, runPageFilter, runSort } from "./run-schema.ts";

/** The runs that a page or file shows. */
export interface RunQuery {
  filter: RunFilter;
  sort: RunSort;
  /** Null for all time. */
  range: Range | null;
  /** The URL's parameters except the range and the order. */
  filterValues: Record<string, string>;
  cursor: string | undefined;
}

/**
 * Reads the filters and the range of runs from a URL, like readRange. Without filters, the range defaults to all time.
 * With a filter, the range defaults to the last 30 days, because a search for a rare value would scan all runs. A
 * filter by request id alone searches all time, because request ids are indexed. `range=all` always means all time.
 * @throws Response 400 INVALID_REQUEST
 */
export function readRunQuery(url: URL, { requestId, now }: { requestId: string; now: Date }): RunQuery {
  const parameters = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ""));
  const { cursor, range: preset, from, to, sort: order = "time", ...filterValues } = parameters;
  const filter = runPageFilter.safeParse(filterValues);
  const sort = runSort.safeParse(order);
  if (!filter.success || !sort.success) {
    const field = filter.success ? "sort" : String(filter.error.issues[0]?.path[0]);
    throw problem("INVALID_REQUEST", { requestId, detail: `${field}: This value isn’t valid.` });
  }
  const filtered = Object.keys(filter.data).some((name) => name !== "requestId");
  const ranged = preset !== allTime && (preset || from || to || filtered);
  const range = ranged ? readRange(url, { now }) : null;
  const window = range ? { from: range.from, to: range.to } : {};
  return { filter: { ...filter.data, ...window }, sort: sort.data, range, filterValues, cursor };
}

/** The columns of a runs file. Amounts are exact. */
export const runColumns: readonly CsvColumn<RunSummary>[] = [
  { name: "id", value: (run) => run.id },
  { name: "request_id", value: (run) => run.requestId },
  { name: "created_at", value: (run) => run.createdAt },
  { name: "settled_at", value: (run) => run.settledAt },
  { name: "status", value: (run) => run.status },
  { name: "http_status", value: (run) => run.httpStatus },
  { name: "error_code", value: (run) => run.errorCode },
  { name: "model", value: (run) => run.model },
  { name: "feature", value: (run) => run.feature },
  { name: "entity_id", value: (run) => run.entityId },
  { name: "credential_source", value: (run) => run.credentialSource },
  { name: "execution_mode", value: (run) => run.executionMode },
  { name: "key_id", value: (run) => run.keyId },
  { name: "key_name", value: (run) => run.keyName },
  { name: "app_id", value: (run) => run.appId },
  { name: "app_name", value: (run) => run.appName },
  { name: "member_id", value: (run) => run.memberId },
  { name: "member_name", value: (run) => run.memberName },
  { name: "user_id", value: (run) => run.userId },
  { name: "usage_source", value: (run) => run.usageSource },
  { name: "input_tokens", value: (run) => run.inputTokens },
  { name: "cached_input_tokens", value: (run) => run.cachedInputTokens },
  { name: "output_tokens", value: (run) => run.outputTokens },
  { name: "reasoning_tokens", value: (run) => run.reasoningTokens },
  { name: "audio_input_tokens", value: (run) => run.audioInputTokens },
  { name: "audio_output_tokens", value: (run) => run.audioOutputTokens },
  { name: "cache_write_tokens", value: (run) => run.cacheWriteTokens },
  { name: "image_input_tokens", value: (run) => run.imageInputTokens },
  { name: "fee_requests", value: (run) => run.feeRequests },
  { name: "provider", value: (run) => run.provider },
  { name: "served_tier", value: (run) => run.servedTier },
  { name: "marks", value: (run) => run.marks.join(" ") },
  { name: "cost_usd", value: (run) => run.costUsd },
  { name: "billed_credits", value: (run) => run.billedCredits },
  { name: "unmetered_credits", value: (run) => run.unmeteredCredits },
  { name: "first_byte_ms", value: (run) => run.firstByteMs },
  { name: "latency_ms", value: (run) => run.latencyMs },
  ...pricingColumns,
];
