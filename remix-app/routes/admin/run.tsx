import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { requireRun } from "../../admin/runs.ts";
import { PricingCard } from "../../studio/runs/pricing-card.tsx";
import { AttemptsCard, RunFactsCard, StepsCard } from "../../studio/runs/run-cards.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Run · Console");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const found = await requireRun(context, params.runId);
  return found;
}

export default function ConsoleRunPage() {
  const { workspace, billing, memberEmail, ...detail } = useLoaderData<typeof loader>();
  const { createdAt } = detail.run;
  const more: [string, string][] = [
    ["Workspace", workspace.name ?? "Deleted"],
    ["Workspace ID", workspace.id],
  ];
  if (memberEmail) more.push(["Member’s email", memberEmail]);
  const account = [billing.name, billing.account].filter(Boolean).join(", ");
  if (account) more.push(["Billed by", account]);
  return (
    <Page title="Run" lead={<RelativeTime at={createdAt} />}>
      <AttemptsCard detail={detail} />
      <RunFactsCard detail={detail} more={more} />
      <PricingCard detail={detail} />
      <StepsCard detail={detail} />
      <ButtonLink href="/admin/providers">Providers</ButtonLink>
    </Page>
  );
}
