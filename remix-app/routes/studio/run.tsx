import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData, useLocation } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { PricingCard } from "../../studio/runs/pricing-card.tsx";
import { RefusedCallView } from "../../studio/runs/refused-call-page.tsx";
import { RepeatCard } from "../../studio/runs/repeat-card.tsx";
import { hideKeyBudgets, RunBudgetsCard } from "../../studio/runs/run-budgets-card.tsx";
import {
  AttemptsCard,
  ErrorNotice,
  RunFactsCard,
  RunFigures,
  SimilarRuns,
  StepsCard,
} from "../../studio/runs/run-cards.tsx";
import { RunContentCard } from "../../studio/runs/run-content-card.tsx";
import { adviseOnError } from "../../studio/runs/run-errors.ts";
import { readRunQuery } from "../../studio/runs/run-query.ts";
import { type AdjacentRuns, openRunContent, readRun, readRunPage } from "../../studio/runs/runs.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle("Run");

/** Reads the run. The query is that of the list from which the person came. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { requestId, env } = context;
  const { filter, sort } = readRunQuery(new URL(request.url), { requestId, now: new Date() });
  const shown = await readRunPage(context, { ...member, runId: params.runId ?? "", filter, sort });
  const { permissions } = workspace;
  const keysVisible = permissions.includes("manage_ai_keys") || permissions.includes("manage_ai_policy");
  if (shown.kind === "run" && !keysVisible) shown.budgets = hideKeyBudgets(shown.budgets);
  return { workspace, gatewayUrl: `${env.AI_URL}/v1`, shown };
}

/** Shows a run's content and records that it was shown. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "manage_ai_policy" });
  await readForm(request, context);
  const { run } = await readRun(context, { ...member, runId: params.runId ?? "" });
  const opened = await openRunContent(context, { reader: member, runId: run.id });
  return data({ opened }, { status: opened ? 200 : 404 });
}

export default function RunPage() {
  const { workspace, gatewayUrl, shown } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const opened = useActionData<typeof action>()?.opened;
  const workspacePath = `/workspaces/${workspace.id}`;
  const runsPath = `${workspacePath}/ai/runs`;
  const reader = { workspacePath, canManageKeys: workspace.permissions.includes("manage_ai_keys") };
  const allRuns = <ButtonLink href={`${runsPath}${search}`}>All runs</ButtonLink>;
  if (shown.kind === "refused") {
    return (
      <StudioPage title="Refused call" lead={<RelativeTime at={shown.call.createdAt} />} actions={allRuns}>
        <RefusedCallView call={shown.call} reader={reader} gatewayUrl={gatewayUrl} />
      </StudioPage>
    );
  }
  const { content, adjacent, kind: _, ...detail } = shown;
  const { run, modelKind } = detail;
  const { model, feature, streamed } = run;
  return (
    <StudioPage
      title="Run"
      lead={
        <>
          {model} · <RelativeTime at={run.createdAt} />
        </>
      }
      actions={
        <>
          {adjacent ? <AdjacentLinks adjacent={adjacent} runsPath={runsPath} search={search} /> : null}
          {allRuns}
        </>
      }
    >
      {run.errorCode ? <ErrorNotice advice={adviseOnError(run.errorCode, reader)} /> : null}
      <RunFigures run={run} />
      <PricingCard detail={detail} />
      <RunFactsCard detail={detail}>
        <SimilarRuns run={run} runsPath={runsPath} />
      </RunFactsCard>
      <RunBudgetsCard budgets={detail.budgets} workspacePath={workspacePath} />
      <AttemptsCard detail={detail} />
      <StepsCard detail={detail} />
      <RepeatCard
        call={{ model, modelKind, feature, streamed, body: opened?.request ?? null }}
        workspacePath={workspacePath}
        gatewayUrl={gatewayUrl}
      />
      {content ? <RunContentCard stored={content} opened={opened} /> : null}
    </StudioPage>
  );
}

/** Links to the runs before and after this one in the list. */
function AdjacentLinks(props: { adjacent: AdjacentRuns; runsPath: string; search: string }) {
  const { adjacent, runsPath, search } = props;
  return (
    <nav aria-label="Adjacent runs" className="flex flex-wrap gap-2">
      {adjacent.previous ? (
        <ButtonLink rel="prev" href={`${runsPath}/${adjacent.previous}${search}`}>
          Previous
        </ButtonLink>
      ) : null}
      {adjacent.next ? (
        <ButtonLink rel="next" href={`${runsPath}/${adjacent.next}${search}`}>
          Next
        </ButtonLink>
      ) : null}
    </nav>
  );
}
