import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { type RunDetail, runDetail } from "../studio/runs/runs.ts";
import { callFunction } from "../supabase/data-api.ts";

export const foundRuns = z.array(
  z.object({
    id: z.uuid(),
    createdAt: z.string(),
    workspaceId: z.uuid(),
    workspaceName: z.string().nullable(),
    model: z.string(),
    status: z.string(),
    errorCode: z.string().nullable(),
  }),
);
/** A run that a search of all workspaces found. */
export type FoundRun = z.infer<typeof foundRuns>[number];

export const runContext = z.object({
  workspace: z.object({ id: z.uuid(), name: z.string().nullable() }),
  billing: z.object({ name: z.string().nullable(), account: z.string().nullable() }),
  memberEmail: z.string().nullable(),
});
const consoleRun = z.intersection(runDetail, runContext).nullable();
/**
 * A run from any workspace, including what the workspace hides from its members. Prompts and answers are never
 * included.
 */
export type ConsoleRun = RunDetail & z.infer<typeof runContext>;

/**
 * Finds runs of all workspaces by their id or request id.
 * @throws Response 503 UNAVAILABLE
 */
export function findRuns(context: AppLoadContext, term: string): Promise<FoundRun[]> {
  return callFunction(context, { name: "private.find_runs", args: { term }, schema: foundRuns });
}

/**
 * Returns a run from any workspace, with the facts that the workspace hides from its members.
 * @throws Response 404 for an unknown run, 503 UNAVAILABLE
 */
export async function requireRun(context: AppLoadContext, runId: string | undefined): Promise<ConsoleRun> {
  const id = z.uuid().safeParse(runId);
  const run = id.success
    ? await callFunction(context, { name: "private.read_run", args: { run_id: id.data }, schema: consoleRun })
    : null;
  if (run) return run;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This run doesn’t exist." });
}
