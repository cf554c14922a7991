import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { actInConsole, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const workspacesSchema = z.array(
  z.object({
    id: z.uuid(),
    name: z.string(),
    plan: z.string(),
    personalUserId: z.uuid().nullable(),
    owners: z.array(z.string().nullable()),
    members: z.number(),
    liveKeys: z.number(),
    approvedAt: z.string().nullable(),
    approvedBy: z.string().nullable(),
  }),
);
/** A workspace, and whether it may make keys. */
export type ApprovableWorkspace = z.infer<typeof workspacesSchema>[number];

const workspacesShown = 50;

/**
 * Workspaces by a part of their name, their id, or a member's email; for an empty text those that may make keys.
 * @throws Response 503 UNAVAILABLE where it could not be asked
 */
export async function searchWorkspaces(
  context: AppLoadContext,
  term: string,
): Promise<{ workspaces: ApprovableWorkspace[]; more: boolean }> {
  const args = { term, page_size: workspacesShown + 1 };
  const found = await callFunction(context, { name: "private.search_workspaces", args, schema: workspacesSchema });
  return { workspaces: found.slice(0, workspacesShown), more: found.length > workspacesShown };
}

/** @throws Response 404 where there is no such workspace */
export async function requireApprovable(
  context: AppLoadContext,
  workspaceId: string | undefined,
): Promise<ApprovableWorkspace> {
  const id = z.uuid().safeParse(workspaceId);
  const found = id.success ? await searchWorkspaces(context, id.data) : null;
  const workspace = found?.workspaces.find((one) => one.id === id.data?.toLowerCase());
  if (workspace) return workspace;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "There is no such workspace." });
}

/** Why this admin cannot decide about a workspace, or null. */
export function approvalLock({ id }: InfrastructureAdmin, { personalUserId }: ApprovableWorkspace): string | null {
  return personalUserId === id ? oneself.message : null;
}

/** Lets a workspace make keys, or no more. */
export function setKeyApproval(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; workspace: string; approved: boolean; reason: string },
): Promise<ConsoleChange> {
  const refusals = { oneself, not_found: { status: 404, message: "There is no such workspace." } } as const;
  return actInConsole(context, { admin, name: "set_key_approval", change, refusals });
}

const oneself = {
  status: 403,
  message: "Nobody decides about their own personal workspace here: ask another admin.",
} as const;
