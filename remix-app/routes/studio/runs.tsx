import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { rangeStatus, searchWith } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { NewRuns } from "../../studio/runs/new-runs.tsx";
import { RunFilterForm } from "../../studio/runs/run-filter-form.tsx";
import { isCostVisible, RefusedCallList, RunList } from "../../studio/runs/run-list.tsx";
import { RunOrder } from "../../studio/runs/run-order.tsx";
import { readRunQuery } from "../../studio/runs/run-query.ts";
import { readRunsPage } from "../../studio/runs/runs.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card, Panel } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Runs · ${data?.workspace.name ?? "Workspace"}`);

const runsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const now = new Date();
  const url = new URL(request.url);
  const {
    filter,
    sort: requested,
    range,
    filterValues,
    cursor,
  } = readRunQuery(url, {
    requestId: context.requestId,
    now,
  });
  const query = { ...member, filter, sort: requested, limit: runsShown, cursor };
  const { nextCursor, ...page } = await readRunsPage(context, query);
  const older = nextCursor && searchWith(url.search, { cursor: nextCursor });
  const first = cursor === undefined;
  // New runs appear at the top of the newest runs, in a range that has not ended.
  const isLive =
    first && page.sort === "time" && filter.status !== "refused" && (!range || Date.parse(range.to) > +now);
  const [newest] = page.runs;
  const poll = isLive
    ? `?${new URLSearchParams({ ...filterValues, from: newest?.createdAt ?? now.toISOString(), limit: "22" })}`
    : null;
  return data({ workspace, ...page, requested, range, filterValues, older, first, poll }, rangeStatus(range));
}

export default function RunsPage() {
  const page = useLoaderData<typeof loader>();
  const { workspace, runs, refused, sort, requested, range, filterValues, options, older, first, poll } = page;
  const { search } = useLocation();
  const path = `/workspaces/${workspace.id}/ai/runs`;
  const filtered = range !== null || Object.keys(filterValues).length > 0;
  const list = { runsPath: path, search, filtered };
  const onlyRefused = filterValues.status === "refused";
  const rows = onlyRefused ? "calls" : "runs";
  // The file has the order of the page.
  const fileSearch = searchWith(search, { sort: sort === "time" ? "" : sort });
  return (
    <StudioPage
      title="Runs"
      lead={
        onlyRefused
          ? "Calls that the gateway refused before it asked a provider."
          : "Every call that the gateway admitted, with tokens, latency and cost. Prompts and answers aren’t shown here."
      }
      actions={
        onlyRefused ? (
          <ButtonLink href={searchWith(search, { status: "" })}>All runs</ButtonLink>
        ) : (
          <>
            <ButtonLink href={searchWith(search, { status: "refused", sort: "" })}>Refused calls</ButtonLink>
            <ButtonLink href={`${path}.csv${fileSearch}`}>Download CSV</ButtonLink>
          </>
        )
      }
    >
      <RangeForm range={range} optional />
      <RunFilterForm filterValues={filterValues} search={search} options={options} />
      {onlyRefused ? null : (
        <RunOrder search={search} sort={sort} requested={requested} costVisible={isCostVisible(runs)} />
      )}
      {poll ? (
        <NewRuns pollPath={`/api/v1${path}${poll}`} newest={runs[0]?.id ?? ""} href={searchWith(search, {})} />
      ) : null}
      {onlyRefused ? null : (
        <Panel>
          <RunList runs={runs} sort={sort} searchedAll={older === null} {...list} />
        </Panel>
      )}
      {refused && (onlyRefused || refused.length > 0) ? (
        <Card
          title="Refused calls"
          lead="Calls that were refused before a run began. They are kept for seven days, at most 20 for each caller and minute."
        >
          <RefusedCallList calls={refused} {...list} />
        </Card>
      ) : null}
      <nav aria-label="Pages" className="flex flex-wrap gap-3 empty:hidden">
        {first ? null : (
          <ButtonLink href={searchWith(search, {})}>{sort === "time" ? `Newest ${rows}` : "First page"}</ButtonLink>
        )}
        {older ? (
          <ButtonLink href={older}>
            {sort !== "time" ? "Next page" : runs.length === 0 && !onlyRefused ? "Continue searching" : `Older ${rows}`}
          </ButtonLink>
        ) : null}
      </nav>
    </StudioPage>
  );
}
