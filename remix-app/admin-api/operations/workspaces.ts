import { z } from "zod";
import { offsetTime } from "#shared/utc-time.ts";
import { accountSchema, creditChangeSchema, requireCreditAccount } from "../../admin/credits.ts";
import { readWorkspaces, requestsSchema, requireApprovable, workspacesSchema } from "../../admin/key-approvals.ts";
import { findRuns, foundRuns, requireRun, runContext } from "../../admin/runs.ts";
import { requireConsoleWorkspace, workspaceSchema } from "../../admin/workspace.ts";
import { pageQuery } from "../../http/list-page.ts";
import { mailSite } from "../../mail/mail-body.ts";
import { approvalAnswerMail } from "../../studio/keys/approval-mail.ts";
import { runDetailBody } from "../../studio/runs/run-body.ts";
import { runWithSteps } from "../../studio/runs/run-schema.ts";
import {
  type AdminCall,
  byCreation,
  changeBody,
  defineChange,
  defineList,
  defineRead,
  reasonOnly,
  searchText,
  term,
} from "../define.ts";
import { readSpending, spendingParts } from "../spending.ts";

export const workspaceReads = {
  searchWorkspaces: defineRead({
    summary: "Search workspaces",
    description:
      "q is an ID, a member’s email or ID, or a part of a name. Without q, the workspaces that may create API keys. Returns at most 50.",
    query: z.object({ q: term }),
    answer: z.object({ workspaces: workspacesSchema, more: z.boolean() }),
    read: ({ context }, { q }) => readWorkspaces(context, q),
  }),
  getPlatformWorkspace: defineRead({
    summary: "Get a workspace’s plan, owners, balance and usage",
    answer: z.object({ workspace: workspaceSchema }),
    read: async ({ context, uuid }) => ({ workspace: await requireConsoleWorkspace(context, uuid("workspaceId")) }),
  }),
  listWorkspaceSpending: defineRead({
    summary: "List what workspaces spend in a month",
    ...spendingParts,
    read: ({ context }, query) => readSpending(context, { ...query, by: "workspace" }),
  }),
  listKeyRequests: defineList({
    summary: "List the workspaces that wait for the approval of API keys",
    description: "Oldest request first. id is the workspace’s, and createdAt identifies the request.",
    field: "requests",
    rows: requestsSchema.element,
    name: "private.list_approval_requests",
    order: byCreation,
    args: ({ after }) => ({ after }),
  }),
  getCreditAccount: defineRead({
    summary: "Get the credit account of a workspace or member",
    description: "With its ledger, newest first. payer is workspace or member.",
    query: pageQuery.pick({ cursor: true }),
    answer: accountSchema.extend({ nextCursor: z.string().nullable() }),
    read: ({ context, param }, { cursor = null }) =>
      requireCreditAccount(context, { payer: param("payer"), ownerId: param("ownerId"), cursor }),
  }),
  searchRuns: defineRead({
    summary: "Find runs of all workspaces by ID or request ID",
    query: z.object({ q: searchText.min(1) }),
    answer: z.object({ runs: foundRuns }),
    read: async ({ context }, { q }) => ({ runs: await findRuns(context, q) }),
  }),
  inspectRun: defineRead({
    summary: "Get a run of any workspace",
    description: "Includes what the workspace hides from its members, but never prompts and answers.",
    amountsAreNumbers: true,
    answer: runWithSteps.extend(runContext.shape),
    async read({ context, uuid }) {
      const run = await requireRun(context, uuid("runId"));
      const { workspace, billing, memberEmail } = run;
      return { ...runDetailBody(run), workspace, billing, memberEmail };
    },
  }),
};

/** Returns the fields of a decision about a workspace’s keys, with the email that announces it. */
async function decide({ context, uuid }: AdminCall, declineReason: string | null) {
  const { id, name } = await requireApprovable(context, uuid("workspaceId"));
  const answer = { workspaceId: id, workspaceName: name, declineReason };
  return { workspace: id, email: approvalAnswerMail(answer, mailSite(context.env)) };
}

const requestedAt = offsetTime.describe("The createdAt of the request that you read.");

export const workspaceChanges = {
  moveWorkspace: defineChange({
    summary: "Move a workspace to another plan",
    description: "seen is the plan that you read. Credit accounts keep their balances.",
    body: changeBody.extend({ plan: z.string().min(1).max(32), seen: z.string().min(1).max(32) }),
    example: { plan: "team", seen: "free", reason: "Contract signed" },
    change: ({ uuid }, { plan, seen }) => ({ workspace: uuid("workspaceId"), plan, seen }),
  }),
  approveKeys: defineChange({
    summary: "Approve a workspace’s API keys",
    description: "With requestedAt, only if that request is still open. The requester and the owners get an email.",
    body: changeBody.extend({ requestedAt: requestedAt.nullable().default(null) }),
    example: reasonOnly.example,
    change: async (call, values) => ({ ...(await decide(call, null)), ...values, approved: true }),
  }),
  withdrawKeyApproval: defineChange({
    summary: "Withdraw the approval of a workspace’s API keys",
    description: "Existing keys keep working.",
    ...reasonOnly,
    change: async (call) => ({ ...(await decide(call, null)), approved: false }),
  }),
  declineKeyRequest: defineChange({
    summary: "Decline a workspace’s request for API keys",
    description: "The requester and the owners get an email with the reason.",
    body: changeBody.extend({ requestedAt }),
    example: { requestedAt: "2026-11-30T12:00:00Z", reason: "Please describe what the keys are for." },
    change: async (call, values) => ({ ...(await decide(call, values.reason)), ...values }),
  }),
  changeCredits: defineChange({
    summary: "Grant or withdraw credits",
    description:
      "Once for each reference: the same reference and amount change nothing again. payer is workspace or member.",
    body: z.strictObject({
      ...creditChangeSchema.shape,
      step: z.enum(["grant", "withdraw"]),
      description: creditChangeSchema.shape.description.default(null),
    }),
    example: { step: "grant", amount: "5000", reference: "INV-2026-07", reason: "Invoice paid" },
    change: ({ param, uuid }, values) => ({ ...values, payer: param("payer"), ownerId: uuid("ownerId") }),
  }),
};
