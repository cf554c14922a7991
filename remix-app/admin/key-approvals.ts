import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { mailSite } from "../mail/mail-body.ts";
import { approvalAnswerMail } from "../studio/keys/approval-mail.ts";
import { callFunction } from "../supabase/data-api.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const workspacesSchema = z.array(
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
    /** The open request for approval. `requestedAt` identifies it. */
    request: z
      .object({ requestedAt: z.string(), requestedBy: z.string().nullable(), note: z.string().nullable() })
      .nullable(),
  }),
);
/** A workspace, and whether it may create keys. */
export type ApprovableWorkspace = z.infer<typeof workspacesSchema>[number];

const workspacesPerPage = 50;

/**
 * Finds workspaces by part of their name, by id, or by a member's email. For empty text, finds the workspaces that may
 * create keys.
 * @throws Response 503 UNAVAILABLE
 */
export async function readWorkspaces(
  context: AppLoadContext,
  term: string,
): Promise<{ workspaces: ApprovableWorkspace[]; more: boolean }> {
  const args = { term, page_size: workspacesPerPage + 1 };
  const found = await callFunction(context, { name: "private.search_workspaces", args, schema: workspacesSchema });
  return { workspaces: found.slice(0, workspacesPerPage), more: found.length > workspacesPerPage };
}

/** @throws Response 404 for an unknown workspace */
export async function requireApprovable(
  context: AppLoadContext,
  workspaceId: string | undefined,
): Promise<ApprovableWorkspace> {
  const id = z.uuid().safeParse(workspaceId);
  const args = { term: id.data, page_size: workspacesPerPage };
  const schema = workspacesSchema;
  const found = id.success ? await callFunction(context, { name: "private.search_workspaces", args, schema }) : [];
  const workspace = found.find((one) => one.id === id.data?.toLowerCase());
  if (workspace) return workspace;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This workspace doesn’t exist." });
}

/** Returns why this admin cannot decide about a workspace, or null. */
export function getApprovalRestriction(
  { id }: InfrastructureAdmin,
  { personalUserId }: ApprovableWorkspace,
): string | null {
  return personalUserId === id ? ownAccountRefusal.message : null;
}

/** Decisions on a workspace's keys, by the last segment of their URL. */
export const approvalSteps = {
  approve: { title: "Approve keys", done: "The workspace can now create and rotate keys.", destroys: false },
  decline: { title: "Decline request", done: "The request is declined.", destroys: false },
  withdraw: {
    title: "Withdraw approval",
    done: "The workspace can no longer create or rotate keys. Existing keys keep working.",
    destroys: true,
  },
} as const;
export type ApprovalStep = keyof typeof approvalSteps;

/**
 * Approves a workspace's keys, withdraws the approval, or declines the request. If there was a request, its requester
 * and the owners get an email.
 * @param change.requestedAt the request that the admin saw, if there was one
 */
export function decideApproval(
  context: AppLoadContext,
  change: {
    admin: InfrastructureAdmin;
    step: ApprovalStep;
    workspace: Pick<ApprovableWorkspace, "id" | "name">;
    requestedAt: string | null;
    reason: string;
  },
): Promise<ConsoleChange> {
  const { admin, step, workspace, requestedAt, reason } = change;
  const answer = {
    workspaceId: workspace.id,
    workspaceName: workspace.name,
    declineReason: step === "decline" ? reason : null,
  };
  const email = approvalAnswerMail(answer, mailSite(context.env));
  const request = { workspace: workspace.id, requestedAt, reason, email };
  return step === "decline"
    ? applyConsoleChange(context, { admin, name: "decline_key_approval", change: request, refusals })
    : applyConsoleChange(context, {
        admin,
        name: "set_key_approval",
        change: { ...request, approved: step === "approve" },
        refusals,
      });
}

const ownAccountRefusal = {
  status: 403,
  message: "You can’t approve or decline your own personal workspace. Ask another admin.",
} as const;

const refusals = {
  oneself: ownAccountRefusal,
  not_found: { status: 404, message: "This workspace doesn’t exist." },
  request_gone: {
    status: 409,
    message:
      "The request was withdrawn, answered or replaced after you opened this page. Nothing was changed. Review it again.",
  },
} as const;

export const requestsSchema = z.array(
  z.object({
    /** The workspace's id. */
    id: z.uuid(),
    name: z.string(),
    plan: z.string(),
    owners: z.array(z.string().nullable()),
    createdAt: z.string(),
    requestedBy: z.string().nullable(),
    note: z.string().nullable(),
  }),
);
export type KeyRequest = z.infer<typeof requestsSchema>[number];

const approvalsPage = z.object({
  requests: requestsSchema,
  /** How many workspaces wait for approval, up to 1,001. */
  count: z.number(),
});

/**
 * Returns a page of the workspaces that wait for approval, oldest request first, and how many wait.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function readApprovals(
  context: AppLoadContext,
  cursor: string | null,
): Promise<{ waiting: KeyRequest[]; nextCursor: string | null; count: number }> {
  const after = parseCursor(cursor, { read: readCursor, requestId: context.requestId });
  const args = { after, page_size: workspacesPerPage + 1 };
  const { requests, count } = await callFunction(context, {
    name: "private.read_approvals_page",
    args,
    schema: approvalsPage,
  });
  const { records: waiting, nextCursor } = buildPage(requests, { limit: workspacesPerPage, cursorOf: writeCursor });
  return { waiting, nextCursor, count };
}
