import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { computeUnitPrice, findTierPrices, type Tariff } from "#shared/money.ts";
import { buildPage, parseCursor, position, readCursor, writeCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { formatCount } from "../../ui/format-amount.ts";
import { callAsMember, readStudio, type StudioMember } from "../studio-reader.ts";
import { type ContentText, readContent, readRequestBody, type StoredContent } from "./content-texts.ts";
import { pricingOf } from "./pricing.ts";
import { type RefusedCall, refusedCall } from "./refused-call.ts";
import { runRow } from "./run-file.ts";
import {
  maxScannedRuns,
  type RunFilter,
  type RunSort,
  type RunSummary,
  type RunUnitPrice,
  runAttempt,
  runBudget,
  runLedgerEntry,
  runSort,
  runStep,
  runSummary,
} from "./run-schema.ts";

const price = z.object({
  service_tier: z.string().optional(),
  min_input_tokens: z.number(),
  input: z.string(),
  output: z.string(),
});
const route = z.object({
  position: z.number(),
  provider: z.string(),
  model: z.string(),
  prices: z.array(price),
  tier_multipliers: z.record(z.string(), z.number()).optional(),
});

/** The result of `ai.run_detail`, with the unit prices of the route that answered. */
export const runDetail = z
  .object({
    run: runSummary,
    /** The kind of the run's model; null if the catalogue no longer has the model. */
    modelKind: z.enum(["chat", "embedding", "speech"]).nullable(),
    steps: z.array(runStep),
    attempts: z.array(runAttempt).nullable(),
    ledger: z.array(runLedgerEntry),
    answeredBy: route.nullable(),
    envelopeId: z.uuid().nullable(),
    budgets: z.array(runBudget),
  })
  .transform(({ answeredBy, ...detail }) => ({
    ...detail,
    pricing: pricingOf(detail.run),
    provider: answeredBy && { route: answeredBy.position, name: answeredBy.provider, model: answeredBy.model },
    unitPrices: answeredBy && listUnitPrices(answeredBy, detail.run.servedTier ?? undefined),
  }));

/** A run with all of its displayed details. attempts, provider and unitPrices are null if provider cost is hidden. */
export type RunDetail = z.output<typeof runDetail>;

function listUnitPrices(tariff: Tariff, servedTier: string | undefined): RunUnitPrice[] {
  const { prices, multiplier } = findTierPrices(tariff, servedTier);
  return prices.map(({ min_input_tokens, input, output }) => ({
    minInputTokens: min_input_tokens,
    inputUsd: computeUnitPrice(input, multiplier),
    outputUsd: computeUnitPrice(output, multiplier),
  }));
}

const notAllowed = z.object({ outcome: z.literal("not_allowed") });
const runListResult = z.object({
  outcome: z.literal("listed"),
  runs: z.array(runSummary),
  continueBefore: position.nullish(),
  sort: runSort.nullish(),
  sortValue: z.string().nullish(),
  unknown: z.enum(["keyId", "appId", "memberId", "provider"]).nullish(),
});
const pages = {
  list_runs: z.union([runListResult, notAllowed]),
  list_run_rows: z.union([runListResult.extend({ runs: z.array(runRow) }), notAllowed]),
};
/** The runs before and after a run in a filtered and sorted list. */
const adjacentRuns = z.object({ previous: z.uuid().nullable(), next: z.uuid().nullable() });
export type AdjacentRuns = z.infer<typeof adjacentRuns>;
const runReadResult = z.union([
  z.object({ outcome: z.literal("read"), adjacent: adjacentRuns.optional() }).and(runDetail),
  z.object({ outcome: z.enum(["not_allowed", "not_found"]) }),
]);

const unknownMessages = {
  keyId: "keyId: This API key doesn’t exist in this workspace.",
  appId: "appId: This app doesn’t exist.",
  memberId: "memberId: This account doesn’t exist.",
  provider: "provider: This provider doesn’t exist, or this workspace doesn’t show providers.",
} as const;

/**
 * Returns a page of a workspace's runs. Each page scans at most {@link maxScannedRuns} runs. If few of them match the
 * filter, a page may be short or empty and still have a next page.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, an unknown filter value, or a range with too many runs to
 * sort; 403 FORBIDDEN, 503 UNAVAILABLE
 */
export function listRuns(context: AppLoadContext, page: RunPageQuery): Promise<RunPage> {
  return readPage(context, { ...page, name: "list_runs" });
}

/**
 * Returns a page of a workspace's runs for a file, like {@link listRuns}. Reads thousands of runs in a fraction of the
 * time. Doesn't return `creditsPerUsd`.
 */
export function listRunsOfFile(context: AppLoadContext, page: RunPageQuery): Promise<RunPage> {
  return readPage(context, { ...page, name: "list_run_rows" });
}

type RunPageQuery = StudioMember & { filter: RunFilter; sort: RunSort; limit: number; cursor?: string | undefined };
type RunPage = { runs: RunSummary[]; nextCursor: string | null };

async function readPage(
  context: AppLoadContext,
  { name, ...options }: RunPageQuery & { name: keyof typeof pages },
): Promise<RunPage> {
  const { filter: _, sort, limit, cursor: __, ...member } = options;
  const args = pageArguments(context, options);
  const answer = await callAsMember(context, { member, name, args, schema: pages[name] });
  if (answer.outcome === "listed" && answer.sort !== sort) {
    const detail = `sort: The range has more than ${formatCount(maxScannedRuns)} runs. Narrow it with from and to.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  return runPageOf(context, { answer, limit });
}

function pageArguments(
  { requestId }: AppLoadContext,
  { filter, sort, limit, cursor }: Omit<RunPageQuery, keyof StudioMember>,
) {
  const before = parseCursor(cursor, { read: readCursor, requestId });
  return { filter, sort, before, page_size: limit + 1, scan_limit: maxScannedRuns };
}

function runPageOf(
  { requestId }: AppLoadContext,
  { answer, limit }: { answer: z.output<(typeof pages)[keyof typeof pages]>; limit: number },
): RunPage {
  if (answer.outcome !== "listed") throw problem("FORBIDDEN", { requestId });
  if (answer.unknown) throw problem("INVALID_REQUEST", { requestId, detail: unknownMessages[answer.unknown] });
  const value = answer.sortValue ?? undefined;
  const cursorOf = ({ createdAt, id }: RunSummary) => writeCursor({ createdAt, id, value });
  const { records: runs, nextCursor } = buildPage(answer.runs, { limit, cursorOf });
  return { runs, nextCursor: nextCursor ?? (answer.continueBefore ? writeCursor(answer.continueBefore) : null) };
}

const idAndName = z.object({ id: z.uuid(), name: z.string() });
const filterOptionsResult = z.union([
  z.object({
    outcome: z.literal("listed"),
    models: z.array(z.string()),
    keys: z.array(idAndName.extend({ ended: z.boolean() })),
    apps: z.array(idAndName),
    members: z.array(idAndName),
    providers: z.array(z.string()).nullable(),
  }),
  z.object({ outcome: z.literal("not_allowed") }),
]);

/** All models to filter a workspace's runs by, and at most 100 of each of the other values. providers is null if the workspace hides them. */
export type RunFilterOptions = Omit<Extract<z.infer<typeof filterOptionsResult>, { outcome: "listed" }>, "outcome">;

const refusedCallsResult = z.object({
  outcome: z.literal("listed"),
  calls: z.array(refusedCall),
  continueBefore: position.nullish(),
});
const runsPage = z.object({
  page: pages.list_runs,
  filters: filterOptionsResult,
  refused: z.union([refusedCallsResult, notAllowed]).nullish(),
});

/** A page of runs, or of refused calls if the filter selects them. A search by request id finds both. */
interface RunsPage extends RunPage {
  /** Null unless refused calls were searched. */
  refused: RefusedCall[] | null;
  /** The order of the page. It is by time if the range has too many runs to sort. */
  sort: RunSort;
  options: RunFilterOptions;
}

/**
 * Returns a page of a workspace's runs like {@link listRuns}, the refused calls, and the values to filter them by.
 * @throws Response like {@link listRuns}, but not for a range with too many runs to sort
 */
export async function readRunsPage(
  context: AppLoadContext,
  { filter, sort, limit, cursor, ...member }: RunPageQuery,
): Promise<RunsPage> {
  const args = pageArguments(context, { filter, sort, limit, cursor });
  const found = await callAsMember(context, { member, name: "read_runs_page", args, schema: runsPage });
  if (found.filters.outcome !== "listed" || found.refused?.outcome === "not_allowed") {
    throw problem("FORBIDDEN", { requestId: context.requestId });
  }
  const { outcome: _, ...options } = found.filters;
  const page = runPageOf(context, { answer: found.page, limit });
  const refused = found.refused && buildPage(found.refused.calls, { limit, cursorOf: writeCursor });
  const continued = found.refused?.continueBefore;
  return {
    ...page,
    nextCursor: page.nextCursor ?? refused?.nextCursor ?? (continued ? writeCursor(continued) : null),
    refused: refused?.records ?? null,
    sort: (found.page.outcome === "listed" && found.page.sort) || "time",
    options,
  };
}

/**
 * Returns one run with its steps and requests to providers.
 * @throws Response 404 NOT_FOUND also for another workspace's run, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function readRun(
  context: AppLoadContext,
  { runId, ...member }: StudioMember & { runId: string },
): Promise<RunDetail> {
  const { requestId } = context;
  if (!z.uuid().safeParse(runId).success) throw problem("NOT_FOUND", { requestId });
  const args = { run_id: runId };
  return runOf(context, await callAsMember(context, { member, name: "read_run", args, schema: runReadResult }));
}

function runOf({ requestId }: AppLoadContext, answer: z.output<typeof runReadResult>): RunDetail {
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId });
  if (answer.outcome !== "read") throw problem("NOT_FOUND", { requestId });
  const { outcome, ...detail } = answer;
  return detail;
}

const noContentResult = z.object({ outcome: z.literal("none") });
const contentFactsResult = z.object({
  outcome: z.literal("kept"),
  deletedFrom: z.string(),
});
export type StoredContentFacts = z.output<typeof contentFactsResult>;
const openedAnswer = z.object({
  outcome: z.literal("opened"),
  deletedFrom: z.string(),
  prompt: z.string().nullable(),
  tools: z.string().nullable(),
  answer: z.string().nullable(),
});

/** The stored prompts and answers of a run. request is the body of the call, or null if it wasn't stored. */
export type OpenContent = { deletedFrom: string; request: Record<string, unknown> | null } & Record<
  keyof StoredContent,
  ContentText[]
>;

const runPage = z.object({
  run: runReadResult,
  content: z.union([contentFactsResult, noContentResult, notAllowed]),
  refused: refusedCall.nullish(),
});

/** The page of a run, or of a refused call. */
type RunPageFacts =
  | ({ kind: "run"; content: StoredContentFacts | null; adjacent: AdjacentRuns | null } & RunDetail)
  | { kind: "refused"; call: RefusedCall };

/**
 * Returns one run like {@link readRun}, its neighbours in the list, and whether its content is stored and until when, but
 * not the content itself. `content` is null if no content was stored, if it has been deleted, or if the member may not
 * turn on content capture. Returns a refused call if the id is that of one.
 * @throws Response like {@link readRun}
 */
export async function readRunPage(
  context: AppLoadContext,
  { runId, filter, sort, ...member }: StudioMember & { runId: string; filter: RunFilter; sort: RunSort },
): Promise<RunPageFacts> {
  if (!z.uuid().safeParse(runId).success) throw problem("NOT_FOUND", { requestId: context.requestId });
  const args = { run_id: runId, filter, sort, scan_limit: maxScannedRuns };
  const { run, content, refused } = await callAsMember(context, {
    member,
    name: "read_run_page",
    args,
    schema: runPage,
  });
  if (refused) return { kind: "refused", call: refused };
  const adjacent = (run.outcome === "read" && run.adjacent) || null;
  return { kind: "run", ...runOf(context, run), adjacent, content: content.outcome === "kept" ? content : null };
}

/**
 * Reads a run's prompts and answers. Records the access in the workspace's log, which its owners can see.
 * @returns null if no content was stored, or if it has been deleted
 * @throws Response 403, 503 like readStudio
 */
export async function openRunContent(
  context: AppLoadContext,
  { reader, runId }: { reader: StudioMember; runId: string },
): Promise<OpenContent | null> {
  const answer = await readStudio(context, {
    reader,
    name: "read_run_content",
    args: { run_id: runId },
    schema: z.union([openedAnswer, noContentResult]),
  });
  if (answer.outcome !== "opened") return null;
  return { deletedFrom: answer.deletedFrom, request: readRequestBody(answer.prompt), ...readContent(answer) };
}
