import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import {
  type ApprovableWorkspace,
  type ApprovalStep,
  approvalSteps,
  decideApproval,
  getApprovalRestriction,
  requireApprovable,
} from "../../admin/key-approvals.ts";
import { formatQuantity } from "../../admin/labels.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { formatDateTime } from "../../http/date-text.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.title ?? "Key approval"} · Console`);

/** The time of the request that the admin saw; empty if there was none. */
const decisionSchema = reasonedChangeSchema.extend({
  requestedAt: z.union([z.iso.datetime({ offset: true }), z.literal("").transform(() => null)]).default(null),
});

async function requireApprovalStep({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const step = params.step ?? "";
  if (!Object.hasOwn(approvalSteps, step)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const workspace = await requireApprovable(context, params.workspaceId);
  const { destroys } = approvalSteps[step as ApprovalStep];
  const confirmation = destroys ? { text: workspace.name, what: "the workspace’s name" } : null;
  return { admin, step: step as ApprovalStep, workspace, destroys: confirmation };
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, workspace, destroys } = await requireApprovalStep(args);
  const restored = restoreChange(args.context, { request: args.request, admin });
  return {
    title: approvalSteps[step].title,
    workspace,
    effects: effectsOf(step, workspace),
    destroys,
    lock: findStepObstacle(step, workspace) ?? getApprovalRestriction(admin, workspace),
    restored,
  };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, workspace, destroys } = await requireApprovalStep(args);
  return answerChange(args.context, {
    request: args.request,
    schema: decisionSchema,
    destroys,
    change: ({ requestedAt, reason }) => decideApproval(args.context, { admin, step, workspace, requestedAt, reason }),
    to: (_, { requestedAt }) =>
      requestedAt === null
        ? `/admin/workspaces?${new URLSearchParams({ q: workspace.id, done: step })}`
        : `/admin/approvals?${new URLSearchParams({ done: step })}`,
  });
}

/** Returns why declining a request or withdrawing an approval would have no effect, or null. */
function findStepObstacle(step: ApprovalStep, { request, approvedAt }: ApprovableWorkspace): string | null {
  if (step === "decline" && !request)
    return "This workspace has no open request. It may have been answered or withdrawn.";
  if (step === "withdraw" && !approvedAt) return "This workspace has no approval to withdraw.";
  return null;
}

/** Describes the effects of a step, such as an approval, and the workspace's current state. */
function effectsOf(step: ApprovalStep, workspace: ApprovableWorkspace): string[] {
  const { name, owners, liveKeys, approvedAt, approvedBy, request } = workspace;
  const requestFacts = request
    ? [
        `${request.requestedBy ?? "A former member"} requested approval on ${formatDateTime(request.requestedAt)}.`,
        ...(request.note ? [`Purpose: ${request.note}`] : []),
      ]
    : [];
  const keys = liveKeys === 0 ? "It has no active keys." : `It has ${formatQuantity(liveKeys, "active key")}.`;
  const emails = "The requester and the owners get an email";
  switch (step) {
    case "approve":
      return [
        `Once you confirm, members of ${name} who manage keys can create and rotate them.`,
        `Its owners: ${owners.filter(Boolean).join(", ") || "none"}. ${keys}`,
        ...requestFacts,
        ...(request ? [`${emails} about the approval, without your reason.`] : []),
      ];
    case "decline":
      return [
        `${name} remains unapproved and may request approval again. ${keys}`,
        ...requestFacts,
        `${emails}. They see your reason in it and on the workspace’s API keys page.`,
      ];
    case "withdraw":
      return [
        `Once you confirm, members of ${name} can no longer create or rotate keys.`,
        liveKeys === 0 ? keys : `${keys} Active keys keep working.`,
        ...(approvedAt
          ? [`It was approved on ${formatDateTime(approvedAt)}, by ${approvedBy ?? "the operator"}.`]
          : []),
      ];
  }
}

export default function ConsoleApprovalPage() {
  const { title, workspace, effects, destroys, lock, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const { id, name, request } = workspace;
  const back = request ? "/admin/approvals" : `/admin/workspaces?${new URLSearchParams({ q: id })}`;
  return (
    <Page title={title} lead={name}>
      <Panel>
        {lock && !failed ? (
          <div className="space-y-4">
            <Notice>{lock}</Notice>
            <ButtonLink href={back}>Back</ButtonLink>
          </div>
        ) : (
          <ChangeForm
            effects={effects}
            destroys={destroys}
            failed={failed ?? restored}
            submit={title}
            cancelTo={back}
            hidden={{ requestedAt: request?.requestedAt ?? "" }}
          />
        )}
      </Panel>
    </Page>
  );
}
