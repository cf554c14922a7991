import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { PricingCard } from "../../studio/runs/pricing-card.tsx";
import { AttemptsCard, RunFactsCard, SimilarRuns, StepsCard } from "../../studio/runs/run-cards.tsx";
import { RunContentCard } from "../../studio/runs/run-content-card.tsx";
import { openRunContent, readRun, readRunPage } from "../../studio/runs/runs.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle("Run");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  return { workspace, ...(await readRunPage(context, { ...member, runId: params.runId ?? "" })) };
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
  const { workspace, content, ...detail } = useLoaderData<typeof loader>();
  const opened = useActionData<typeof action>()?.opened;
  return (
    <StudioPage
      title="Run"
      lead={<RelativeTime at={detail.run.createdAt} />}
      actions={<ButtonLink href={`/workspaces/${workspace.id}/ai/runs`}>All runs</ButtonLink>}
    >
      <RunFactsCard detail={detail}>
        <SimilarRuns run={detail.run} runsPath={`/workspaces/${workspace.id}/ai/runs`} />
      </RunFactsCard>
      <PricingCard detail={detail} />
      <AttemptsCard detail={detail} />
      <StepsCard detail={detail} />
      {content ? <RunContentCard stored={content} opened={opened} /> : null}
    </StudioPage>
  );
}
