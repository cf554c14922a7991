import { type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { ProviderLimitTable } from "../../admin/provider-limit-table.tsx";
import { ProviderUsageTable, RouteStateTable } from "../../admin/provider-tables.tsx";
import { readProviders } from "../../admin/providers.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { FoundRuns, RouteTable } from "../../admin/route-table.tsx";
import { findRuns } from "../../admin/runs.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { rangeDays, readRange } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Providers · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const runs = term ? await findRuns(context, term) : null;
  const [run] = runs ?? [];
  if (run && runs?.length === 1) throw redirect(`/admin/runs/${run.id}`);
  const url = new URL(request.url);
  const now = new Date();
  const range = readRange(url, { now });
  const done = url.searchParams.has("done");
  if (runs) return { term, range, now: now.toISOString(), done, runs, state: null };
  const state = await readProviders(context, { cursor: url.searchParams.get("cursor"), range });
  return { term, range, now: now.toISOString(), done, runs: null, state };
}

export default function ConsoleProvidersPage() {
  const { term, range, done, runs, state } = useLoaderData<typeof loader>();
  return (
    <Page title="Providers" lead="Which providers serve each model, what they charge, and recent failures.">
      {done ? <Notice tone="good">Limits saved.</Notice> : null}
      <SearchCard title="Find a run" label="Run ID or request ID" term={term} />
      {runs ? (
        <Card title={`Runs that match “${term}”`}>
          <FoundRuns runs={runs} />
        </Card>
      ) : (
        <ProvidersState {...state} range={range} />
      )}
    </Page>
  );
}

type Loaded = ReturnType<typeof useLoaderData<typeof loader>>;

function ProvidersState({
  models,
  nextCursor,
  states,
  limits,
  usage,
  range,
}: NonNullable<Loaded["state"]> & Pick<Loaded, "range">) {
  const days = rangeDays(range);
  return (
    <>
      <Card
        id="health"
        title="Health"
        lead="What the gateway last reported about each route. A route that keeps failing is skipped for up to five minutes."
      >
        <RouteStateTable states={states} />
      </Card>
      <Card
        id="limits"
        title="Limits"
        lead="What each provider gets from all workspaces together. The gateway stays within the limits in any 60 seconds. Open a provider to change them."
      >
        <ProviderLimitTable limits={limits} />
      </Card>
      <Card
        id="usage"
        title="Usage"
        lead="All workspaces, including today so far."
        action={
          <ButtonLink href={`/admin/providers.csv?${new URLSearchParams({ from: days.first, to: days.last })}`}>
            Download CSV
          </ButtonLink>
        }
      >
        <div className="space-y-4">
          <RangeForm range={range} />
          <ProviderUsageTable usage={usage} />
        </div>
      </Card>
      <Card
        title="Routes"
        lead="The routes of enabled models, in the order they are tried. Failures are restored for seven days."
      >
        <RouteTable models={models} />
        <PageNav label="Pages of models" nextCursor={nextCursor} keep={["range", "from", "to"]} />
      </Card>
    </>
  );
}
