import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { rangeStatus, searchWith } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { RunFilterForm } from "../../studio/runs/run-filter-form.tsx";
import { RunList } from "../../studio/runs/run-list.tsx";
import { readRunQuery } from "../../studio/runs/run-query.ts";
import { readRunsPage } from "../../studio/runs/runs.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Runs · ${data?.workspace.name ?? "Workspace"}`);

const runsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const now = new Date();
  const url = new URL(request.url);
  const { filter, range, filterValues, cursor } = readRunQuery(url, { requestId: context.requestId, now });
  const page = { ...member, filter, limit: runsShown, cursor };
  const { runs, nextCursor, options } = await readRunsPage(context, page);
  const older = nextCursor && searchWith(url.search, { cursor: nextCursor });
  const first = cursor === undefined;
  return data({ workspace, runs, range, filterValues, options, older, first }, rangeStatus(range));
}

export default function RunsPage() {
  const { workspace, runs, range, filterValues, options, older, first } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const path = `/workspaces/${workspace.id}/ai/runs`;
  return (
    <StudioPage
      title="Runs"
      lead="Every request to the gateway, with tokens, latency and cost. Prompts and answers aren’t shown here."
      actions={<ButtonLink href={`${path}.csv${searchWith(search, {})}`}>Download CSV</ButtonLink>}
    >
      <RangeForm range={range} optional />
      <RunFilterForm filterValues={filterValues} search={search} options={options} />
      <Panel>
        <RunList
          runs={runs}
          runsPath={path}
          filtered={range !== null || Object.keys(filterValues).length > 0}
          searchedAll={older === null}
        />
      </Panel>
      <nav aria-label="Pages" className="flex flex-wrap gap-3 empty:hidden">
        {first ? null : <ButtonLink href={searchWith(search, {})}>Newest runs</ButtonLink>}
        {older ? <ButtonLink href={older}>{runs.length === 0 ? "Continue searching" : "Older runs"}</ButtonLink> : null}
      </nav>
    </StudioPage>
  );
}
