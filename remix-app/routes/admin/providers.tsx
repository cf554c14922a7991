import { type MetaFunction, useLoaderData } from "@remix-run/react";
import { type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { listFailingModels, listProviderRoutes } from "../../admin/providers.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { FoundRuns, RouteTable } from "../../admin/route-table.tsx";
import { findRuns } from "../../admin/runs.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta: MetaFunction = () => [{ title: "Providers · Console · Gatehouse" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const runs = term ? await findRuns(context, term) : null;
  const [run] = runs ?? [];
  if (run && runs?.length === 1) throw redirect(`/admin/runs/${run.id}`);
  const cursor = new URL(request.url).searchParams.get("cursor");
  const [page, failing] = runs
    ? [{ models: [], nextCursor: null }, []]
    : await Promise.all([listProviderRoutes(context, cursor), listFailingModels(context)]);
  return { term, runs, ...page, failing, now: new Date().toISOString() };
}

export default function ConsoleProvidersPage() {
  const { term, runs, models, nextCursor, failing, now } = useLoaderData<typeof loader>();
  return (
    <ConsolePage title="Providers" lead="Which providers serve each model, and recent failures.">
      <SearchCard title="Find a run" label="Run id or request id" term={term} />
      {runs ? (
        <Card title={`Runs that match “${term}”`}>
          <FoundRuns runs={runs} />
        </Card>
      ) : (
        <>
          {failing.length > 0 ? (
            <Notice tone="warn">
              Failed requests in the last hour:{" "}
              {failing.map(({ displayName, failed }) => `${displayName} (${failed})`).join(", ")}. Run{" "}
              <code className="whitespace-nowrap font-mono">npm run doctor</code> to find out what to correct.
            </Notice>
          ) : null}
          <Card
            title="Routes"
            lead="The routes of enabled models, in the order in which they are asked. Failures are kept for seven days."
          >
            <RouteTable models={models} now={now} />
            <PageNav label="Pages of models" nextCursor={nextCursor} />
          </Card>
        </>
      )}
    </ConsolePage>
  );
}
