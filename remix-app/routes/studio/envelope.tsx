import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { isFresh, requireFreshUser } from "../../session/user.ts";
import {
  EnvelopeFacts,
  HistoryCard,
  LimitForm,
  resumeEnd,
  StateNotice,
  StopQuestion,
  savedText,
  UseCard,
} from "../../studio/envelopes/envelope-cards.tsx";
import { readLimitForm } from "../../studio/envelopes/envelope-form.ts";
import { envelopeName } from "../../studio/envelopes/envelope-meter.tsx";
import type { Envelope } from "../../studio/envelopes/envelope-schema.ts";
import { changeEnvelope, openingFaults, requireEnvelope } from "../../studio/envelopes/envelopes.ts";
import { linkToRuns } from "../../studio/runs/runs-link.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requireWorkspace } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) =>
  data ? `${envelopeName(data.envelope)} · Task limit` : "Task limit",
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace, member } = await requireWorkspace(context, { request, params });
  const { envelope, history } = await requireEnvelope(context, { ...member, envelopeId: params.envelopeId });
  const search = new URL(request.url).searchParams;
  const { hours, ...restored } = takeForm(context, { request, userId: user.id });
  const endsAt = resumeEnd(hours);
  const typed: Record<string, string> = endsAt === undefined ? restored : { ...restored, endsAt };
  return {
    workspace,
    envelope,
    history,
    typed,
    done: search.get("done"),
    confirming: search.get("confirm") === "stop",
  };
}

/** Changes the limits, or stops the task. Only a raise or a later end requires a recent proof of identity. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace, member } = await requireWorkspace(context, { request, params });
  const { envelopeId } = params;
  const form = await readForm(request, context);
  const typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const page = `/workspaces/${workspace.id}/ai/envelopes/${envelopeId}`;
  const change = { ...member, envelopeId, isFresh: isFresh(user) };
  if (typed.intent === "stop") {
    await changeEnvelope(context, { ...change, changes: { ended: true }, version: null });
    throw redirect(`${page}?done=stopped`, 303);
  }
  const { envelope } = await requireEnvelope(context, { ...member, envelopeId });
  const endsAt = resumeEnd(typed.hours);
  const read = readLimitForm({ ...typed, ...(endsAt && { endsAt }) }, envelope);
  const refuse = (errors: Readonly<Record<string, string | undefined>>) =>
    data({ typed, errors, hasChanged: false }, { status: 400 });
  if ("errors" in read) return refuse(read.errors);
  const changed = await changeEnvelope(context, { ...change, changes: read.changes, version: typed.version ?? "" });
  switch (changed.outcome) {
    case "changed":
    case "unchanged":
      throw redirect(`${page}?done=saved`, 303);
    case "changed_meanwhile":
    case "ended":
      // Saving again then replaces the change that the person sees now.
      return data(
        { typed: { ...typed, version: changed.envelope.version }, errors: {}, hasChanged: true },
        { status: 409 },
      );
    case "bad_end":
      return refuse({ endsAt: openingFaults.bad_end[1] });
    case "step_up_required":
      // Always redirects: the proof was not recent a moment ago.
      await requireFreshUser(context, request, { keepsForm: form });
      throw redirect(page, 303);
  }
}

export default function EnvelopePage() {
  const { workspace, envelope, history, typed, done, confirming } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const list = `/workspaces/${workspace.id}/ai/envelopes`;
  const page = `${list}/${envelope.id}`;
  const name = envelopeName(envelope);
  const canChange = envelope.state !== "ended" && !envelope.replaced;
  const isRestored = canChange && !answer && Object.keys(typed).length > 0;
  const { state } = envelope;
  return (
    <StudioPage
      title={<span className="wrap-anywhere">{name}</span>}
      lead="A task limit: its requests are refused once it’s used up, until you raise it."
      actions={<ButtonLink href={list}>All task limits</ButtonLink>}
    >
      {!answer && !isRestored && done !== null ? <DoneNotice done={done} envelope={envelope} /> : null}
      {isRestored ? <Notice>You’ve confirmed that it’s you. Save to apply your change.</Notice> : null}
      {answer?.hasChanged && canChange ? (
        <Notice tone="warn">
          Someone changed this task limit meanwhile. {savedText(envelope)} Save again to replace their change.
        </Notice>
      ) : null}
      {confirming && state === "open" && !answer ? <StopQuestion page={page} name={name} /> : null}
      <StateNotice envelope={envelope} />
      {isRestored ? <LimitForm envelope={envelope} page={page} typed={typed} errors={{}} /> : null}
      <UseCard envelope={envelope} page={page} runsPath={runsPathOf(envelope, workspace.id)} hasRaises={!isRestored} />
      {canChange && !isRestored ? (
        <LimitForm envelope={envelope} page={page} typed={answer?.typed ?? {}} errors={answer?.errors ?? {}} />
      ) : null}
      <EnvelopeFacts envelope={envelope} />
      <HistoryCard history={history} />
    </StudioPage>
  );
}

function DoneNotice({ done, envelope }: { done: string; envelope: Envelope }) {
  if (done === "opened") return <Notice tone="good">Task limit set. It applies from the next request.</Notice>;
  if (done === "exists") return <Notice>These requests already have an open task limit. Change it here.</Notice>;
  if (done === "saved" && envelope.state !== "ended") return <Notice tone="good">{savedText(envelope)}</Notice>;
  return null;
}

/** Returns the list of the runs with the same label or key. Null if no filter of the list finds them. */
function runsPathOf({ label, keyId, principal }: Envelope, workspaceId: string): string | null {
  const query =
    label !== ""
      ? { entityId: label }
      : principal.kind === "member"
        ? { memberId: principal.id }
        : keyId === null
          ? null
          : { keyId };
  return query === null ? null : linkToRuns(`/workspaces/${workspaceId}/ai/runs`, query);
}
