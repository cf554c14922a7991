import { Link, type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { RunFilterForm } from "../studio/run-filter-form.tsx";
import { RunList } from "../studio/run-list.tsx";
import { runFilter } from "../studio/run-schema.ts";
import { listRuns } from "../studio/runs.ts";
import { Panel } from "../ui/panel.tsx";
import { StudioPage } from "../ui/studio-page.tsx";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `Runs · ${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

const runsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const given = Object.entries(Object.fromEntries(new URL(request.url).searchParams)).filter(
    ([, value]) => value !== "",
  );
  const { cursor, ...asked } = Object.fromEntries(given);
  const filter = runFilter.safeParse(asked);
  if (!filter.success) {
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail: "There are no runs of such a kind." });
  }
  const page = { userId: user.id, workspaceId: workspace.id, filter: filter.data, limit: runsShown, cursor };
  const { runs, nextCursor } = await listRuns(context, page);
  const older = nextCursor ? `?${new URLSearchParams({ ...asked, cursor: nextCursor })}` : null;
  const { email, displayName } = user;
  return { user: { email, displayName }, workspace, runs, asked, older, now: new Date().toISOString() };
}

export default function RunsPage() {
  const { user, workspace, runs, asked, older, now } = useLoaderData<typeof loader>();
  return (
    <StudioPage
      user={user}
      workspace={workspace}
      title="Runs"
      lead="Each call of the gateway: who asked, what it used and what it cost. Never what was said."
    >
      <RunFilterForm asked={asked} />
      <Panel>
        <RunList runs={runs} workspaceId={workspace.id} filtered={Object.keys(asked).length > 0} now={now} />
        {older ? (
          <Link className="link" to={older}>
            Older runs
          </Link>
        ) : null}
      </Panel>
    </StudioPage>
  );
}
