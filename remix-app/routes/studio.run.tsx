import { Link, type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/server-runtime";
import { readForm } from "../http/form.ts";
import { exactUsd, formatCount, formatMs } from "../studio/format-amount.ts";
import { describeRunContent, openRunContent } from "../studio/runs/run-content.ts";
import { RunContentCard } from "../studio/runs/run-content-card.tsx";
import type { RunSummary } from "../studio/runs/run-schema.ts";
import { readRun } from "../studio/runs/runs.ts";
import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Facts } from "../ui/facts.tsx";
import { Moment } from "../ui/moment.tsx";
import { StudioPage } from "../ui/studio-page.tsx";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

export const meta: MetaFunction = () => [{ title: "Run · Gatehouse" }];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const member = { userId: user.id, workspaceId: workspace.id };
  const found = await readRun(context, { ...member, runId: params.runId ?? "" });
  // What was said is for those who may choose that it is kept; nobody else learns even whether it is.
  const content = workspace.permissions.includes("manage_ai_policy")
    ? await describeRunContent(context, { reader: { kind: "member", ...member }, runId: found.run.id })
    : null;
  const { email, displayName } = user;
  return { user: { email, displayName }, workspace, ...found, content, now: new Date().toISOString() };
}

/** Shows what was said, and writes down that it was shown. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "manage_ai_policy",
  });
  await readForm(request, context);
  const member = { userId: user.id, workspaceId: workspace.id };
  const { run } = await readRun(context, { ...member, runId: params.runId ?? "" });
  const opened = await openRunContent(context, { reader: { kind: "member", ...member }, runId: run.id });
  return data({ opened }, { status: opened ? 200 : 404 });
}

const sources = {
  provider: "reported by the provider",
  provider_partial: "reported in part, the rest estimated or unknown",
  estimated_partial: "estimated: the call ended early",
  unavailable: "not available",
} as const;

const notes = {
  above_context_window:
    "The provider reported more tokens than the model's context window, so only the window was counted.",
  above_output_limit: "The answer is longer than the output limit of the request.",
  implausible: "The provider reported more than any call can use.",
  unpriced_tier: "The provider served a service tier that has no price here, so the default prices were charged.",
} as const satisfies Record<RunSummary["marks"][number], string>;

function factsOf(run: RunSummary): [string, string][] {
  const facts: [string, string | number | null][] = [
    ["Status", capitalised(run.errorCode ? `${run.status} (${run.errorCode})` : run.status)],
    ["Model", run.model],
    ["Feature", run.feature],
    ["About", run.entityId],
    ["Asked by", capitalised(run.credentialSource.replace("_", " "))],
    ["Tokens in", `${formatCount(run.inputTokens)} (${formatCount(run.cachedInputTokens)} cached)`],
    ["Cache writes", run.cacheWriteTokens > 0 ? formatCount(run.cacheWriteTokens) : null],
    ["Image tokens", run.imageInputTokens > 0 ? formatCount(run.imageInputTokens) : null],
    ["Tokens out", `${formatCount(run.outputTokens)} (${formatCount(run.reasoningTokens)} reasoning)`],
    ["Requests with a fee", run.feeRequests > 0 ? formatCount(run.feeRequests) : null],
    ["Service tier", run.servedTier],
    ["Notes", run.marks.map((mark) => notes[mark]).join(" ")],
    ["Usage", run.usageSource && capitalised(sources[run.usageSource])],
    ["Provider's cost", run.costUsd && exactUsd(run.costUsd)],
    ["Billed credits", run.billedCredits],
    ["Unmetered credits", run.unmeteredCredits],
    ["First byte", run.firstByteMs === null ? null : formatMs(run.firstByteMs)],
    ["In all", run.latencyMs === null ? null : formatMs(run.latencyMs)],
    ["Request id", run.requestId],
    ["Run id", run.id],
  ];
  return facts.flatMap(([name, value]) => (value === null || value === "" ? [] : [[name, String(value)]]));
}

const capitalised = (words: string) => `${words.charAt(0).toUpperCase()}${words.slice(1)}`;

export default function RunPage() {
  const { user, workspace, run, steps, content, now } = useLoaderData<typeof loader>();
  const opened = useActionData<typeof action>()?.opened;
  return (
    <StudioPage
      user={user}
      workspace={workspace}
      title="Run"
      lead={<Moment at={run.createdAt} now={now} />}
      actions={
        <Link className={buttonClass("secondary")} to={`/workspaces/${workspace.id}/ai/runs`}>
          All runs
        </Link>
      }
    >
      <Card title="What it was">
        <Facts facts={factsOf(run)} />
      </Card>
      <Card title="Steps" lead="What the call did, in order.">
        {steps.length === 0 ? (
          <p className="text-muted">
            {run.status === "running" ? "No step is recorded yet." : "No step was recorded."}
          </p>
        ) : null}
        <ol>
          {steps.map(({ step, type, name, status, latencyMs }) => (
            <li
              key={step}
              className="flex flex-wrap justify-between gap-x-6 gap-y-1 border-line py-2.5 not-first:border-t first:pt-0 last:pb-0"
            >
              <span>
                {step}. {type}: {name}
              </span>
              <span className={`tabular-nums ${status === "failed" ? "text-bad" : "text-muted"}`}>
                {status} · {formatMs(latencyMs)}
              </span>
            </li>
          ))}
        </ol>
      </Card>
      {content ? <RunContentCard kept={content} opened={opened} now={now} /> : null}
    </StudioPage>
  );
}
