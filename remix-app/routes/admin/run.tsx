import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { requireRun } from "../../admin/runs.ts";
import { PricingCard } from "../../studio/runs/pricing-card.tsx";
import { AttemptsCard, RunFactsCard, StepsCard } from "../../studio/runs/run-cards.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Moment } from "../../ui/moment.tsx";

export const meta = pageTitle("Run · Console");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const found = await requireRun(context, params.runId);
  return { ...found, now: new Date().toISOString() };
}

export default function ConsoleRunPage() {
  const { workspace, billing, memberEmail, now, ...detail } = useLoaderData<typeof loader>();
  const { createdAt } = detail.run;
  const more: [string, string][] = [
    ["Workspace", workspace.name ?? "Deleted"],
    ["Workspace ID", workspace.id],
  ];
  if (memberEmail) more.push(["Member’s email", memberEmail]);
  const account = [billing.name, billing.account].filter(Boolean).join(", ");
  if (account) more.push(["Billed by", account]);
  return (
    <ConsolePage title="Run" lead={<Moment at={createdAt} now={now} />}>
      <AttemptsCard detail={detail} />
      <RunFactsCard detail={detail} more={more} />
      <PricingCard detail={detail} />
      <StepsCard detail={detail} />
      <ButtonLink href="/admin/providers">Providers</ButtonLink>
    </ConsolePage>
  );
}
