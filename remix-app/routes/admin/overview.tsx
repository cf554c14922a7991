import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import type { ReactNode } from "react";
import { readOutageMails, setOutageMails } from "../../admin/outage-mails.ts";
import { OutageMailsForm } from "../../admin/outage-mails.tsx";
import { readOverview } from "../../admin/overview.ts";
import { AttentionCard, attentionCards } from "../../admin/overview-cards.tsx";
import { maxTroubledRoutes } from "../../admin/overview-words.ts";
import { ProviderTroubleList } from "../../admin/provider-trouble.tsx";
import { redirectToBooks, requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { costSources } from "../../books/importer/cost-sources.ts";
import { Figures } from "../../studio/figures.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Overview · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await redirectToBooks(context);
  // Until 0.6.0: the list of accounts was here.
  const { searchParams, search } = new URL(request.url);
  if (searchParams.has("q") || searchParams.has("cursor")) throw redirect(`/admin/accounts${search}`);
  const admin = await requireInfrastructureAdmin(context, request);
  const providers = costSources(context.env).map(({ provider }) => provider);
  const [overview, getsMails] = await Promise.all([
    readOverview(context, { costProviders: providers.map(({ id }) => id) }),
    readOutageMails(context, admin),
  ]);
  return { overview, getsMails, names: Object.fromEntries(providers.map(({ id, name }) => [id, name])) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  return setOutageMails(context, { request, admin });
}

export default function ConsoleOverviewPage() {
  const { overview, getsMails, names } = useLoaderData<typeof loader>();
  const { providers, today, usual } = overview;
  const cards = attentionCards(overview, names);
  const isCalm = providers.length === 0 && cards.length === 0;
  return (
    <Page title="Overview" lead="What needs you, and today so far.">
      {isCalm ? <Notice tone="good">Nothing needs you.</Notice> : null}
      {providers.length > 0 ? (
        <Card
          id="providers"
          title="Provider trouble"
          lead={`Routes that fail or are skipped now, at most ${maxTroubledRoutes} of each provider, and what callers got.`}
          action={<ButtonLink href="/admin/providers">Open providers</ButtonLink>}
        >
          <ProviderTroubleList providers={providers} />
        </Card>
      ) : null}
      <Figures
        figures={[
          { label: "Calls today", value: formatCount(today.calls), note: usualNote(usual && formatCount(usual.runs)) },
          {
            label: "Failed",
            value: formatCount(today.failed),
            note: usualNote(usual && formatCount(usual.failedRuns)),
          },
          {
            label: "Refused",
            value: formatCount(today.refused),
            note: usualNote(usual && formatCount(usual.refusedCalls)),
          },
          {
            label: "Spending",
            value: <Usd amount={today.costUsd} />,
            note: usualNote(usual && <Usd amount={usual.costUsd} />),
          },
        ]}
      />
      {cards.length > 0 ? (
        <div className="grid items-start gap-6 xl:grid-cols-2">
          {cards.map((card) => (
            <AttentionCard key={card.kind} {...card} />
          ))}
        </div>
      ) : null}
      {getsMails === null ? null : (
        <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3">
          <p className="text-muted">
            {getsMails
              ? "You get an email when a provider fails for a minute, and one when it works again."
              : "You get no email when a provider fails."}
          </p>
          <OutageMailsForm isOn={getsMails} />
        </div>
      )}
    </Page>
  );
}

/** Says what is usual by this time of this weekday (UTC). */
function usualNote(usual: ReactNode): ReactNode {
  return usual === null ? "No usual day yet" : <>Usually {usual} by now</>;
}
