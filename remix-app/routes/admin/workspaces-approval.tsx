import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { keptChange, refused, unreadable } from "../../admin/change-answer.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { confirmedChangeSchema, confirms } from "../../admin/console-change.ts";
import { approvalLock, requireApprovable, setKeyApproval } from "../../admin/key-approvals.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Notice } from "../../ui/notice.tsx";

const steps = { approve: "Approve keys", withdraw: "Withdraw the approval" } as const;

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `${data ? steps[data.step] : "Key approval"} · Console · Gatehouse` },
];

async function requireStep({ request, params, context }: Pick<LoaderFunctionArgs, "request" | "params" | "context">) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { step } = params;
  if (step !== "approve" && step !== "withdraw") throw problem("NOT_FOUND", { requestId: context.requestId });
  return { admin, step, workspace: await requireApprovable(context, params.workspaceId) } as const;
}

export async function loader(args: LoaderFunctionArgs) {
  const { admin, step, workspace } = await requireStep(args);
  const kept = keptChange(args.context, { request: args.request, admin });
  return { step, workspace, lock: approvalLock(admin, workspace), kept };
}

export async function action(args: ActionFunctionArgs) {
  const { admin, step, workspace } = await requireStep(args);
  const form = await readForm(args.request, args.context);
  const change = confirmedChangeSchema.safeParse(Object.fromEntries(form));
  if (!change.success) return data(unreadable(change.error, form), { status: 400 });
  const { reason, confirmation } = change.data;
  if (!confirms(confirmation, workspace.name)) {
    const message = "What you typed is not the workspace's name, so nothing was changed.";
    return data(refused({ message, field: "confirmation" }, form), { status: 400 });
  }
  const asked = { admin, workspace: workspace.id, approved: step === "approve", reason };
  const done = await setKeyApproval(args.context, asked);
  if (done.outcome === "refused") return data(refused(done, form), { status: done.status });
  throw redirect(`/admin/workspaces?${new URLSearchParams({ q: workspace.id, done: step })}`, 303);
}

export default function ConsoleApprovalPage() {
  const { step, workspace, lock, kept } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? kept;
  const { id, name, owners, liveKeys, approvedAt, approvedBy } = workspace;
  const since = approvedAt
    ? `It is approved since ${approvedAt.slice(0, 16).replace("T", " ")} UTC, by ${approvedBy ?? "the operator"}.`
    : "It has no approval now.";
  const keys = `${liveKeys} ${liveKeys === 1 ? "key of it works" : "keys of it work"} now.`;
  const effects =
    step === "approve"
      ? [
          `From the moment you confirm, members of ${name} who manage keys can make and rotate them.`,
          `Its owners: ${owners.filter(Boolean).join(", ") || "none"}. ${keys}`,
          since,
        ]
      : [`From the moment you confirm, nobody makes or rotates a key of ${name}.`, `${keys} They keep working.`, since];
  return (
    <ConsolePage title={steps[step]} lead={name}>
      <Card title="What will happen">
        {lock ? (
          <Notice>{lock}</Notice>
        ) : (
          <ChangeForm
            effects={effects}
            confirm={{ text: name, what: "the workspace's name" }}
            failed={failed}
            submit={steps[step]}
            cancelTo={`/admin/workspaces?${new URLSearchParams({ q: id })}`}
          />
        )}
      </Card>
    </ConsolePage>
  );
}
