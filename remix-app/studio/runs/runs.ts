import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { jsonNumber } from "#shared/raw-json.ts";
import { pageOf, positionOf } from "../../http/list-page.ts";
import { readCursor, writeCursor } from "../../http/position-cursor.ts";
import { problem } from "../../http/problem.ts";
import { createServiceClient } from "../../identity/service-client.ts";
import type { StudioMember } from "../studio-reader.ts";
import { type RunDetail, runDetail } from "./run-detail.ts";
import { type RunFilter, type RunSummary, runSummary } from "./run-schema.ts";

const listed = z.union([
  z.object({ outcome: z.literal("listed"), runs: z.array(runSummary) }),
  z.object({ outcome: z.literal("not_allowed") }),
]);
const read = z.union([
  z.object({ outcome: z.literal("read") }).and(runDetail),
  z.object({ outcome: z.enum(["not_allowed", "not_found"]) }),
]);

function unavailable(code: string | undefined, { requestId }: AppLoadContext): Response {
  console.error(`error request=${requestId} runs could not be read: ${code ?? "answer"}`);
  return problem("UNAVAILABLE", { requestId });
}

/**
 * A page of a workspace's runs, the newest first.
 * @throws Response 400 INVALID_REQUEST for a cursor that is none of ours, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function listRuns(
  context: AppLoadContext,
  options: StudioMember & { filter: RunFilter; limit: number; cursor?: string | undefined },
): Promise<{ runs: RunSummary[]; nextCursor: string | null }> {
  const { userId, workspaceId, filter, limit, cursor } = options;
  const { requestId } = context;
  const before = positionOf(cursor, { read: readCursor, requestId });
  const { data, error } = await createServiceClient(context.env)
    .schema("ai")
    .rpc("list_runs", { member_id: userId, workspace: workspaceId, filter, before, page_size: limit + 1 });
  if (error) throw unavailable(error.code, context);
  const answer = listed.parse(data);
  if (answer.outcome !== "listed") throw problem("FORBIDDEN", { requestId });
  const { records: runs, nextCursor } = pageOf(answer.runs, { limit, cursorOf: writeCursor });
  return { runs, nextCursor };
}

/**
 * One run with its steps and requests to providers.
 * @throws Response 404 NOT_FOUND for one of another workspace too, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function readRun(
  context: AppLoadContext,
  { userId, workspaceId, runId }: StudioMember & { runId: string },
): Promise<RunDetail> {
  const { requestId } = context;
  if (!z.uuid().safeParse(runId).success) throw problem("NOT_FOUND", { requestId });
  const { data, error } = await createServiceClient(context.env)
    .schema("ai")
    .rpc("read_run", { member_id: userId, workspace: workspaceId, run_id: runId });
  if (error) throw unavailable(error.code, context);
  const answer = read.parse(data);
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId });
  if (answer.outcome !== "read") throw problem("NOT_FOUND", { requestId });
  const { outcome, ...detail } = answer;
  return detail;
}

/** One run for an API's answer. */
export function runDetailBody({ run, steps, attempts, unitPrices }: RunDetail): object {
  const prices = unitPrices?.map(({ minInputTokens, inputUsd, outputUsd }) => ({
    minInputTokens,
    inputUsd: jsonNumber(inputUsd),
    outputUsd: jsonNumber(outputUsd),
  }));
  return { ...runBody(run), steps, attempts, unitPrices: prices ?? null };
}

/** A run for an API's answer: amounts are JSON numbers with their exact digits. */
export function runBody(run: RunSummary): object {
  return {
    ...run,
    billedCredits: jsonNumber(run.billedCredits),
    unmeteredCredits: jsonNumber(run.unmeteredCredits),
    costUsd: run.costUsd === null ? null : jsonNumber(run.costUsd),
  };
}
