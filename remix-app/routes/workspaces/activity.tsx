import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { problem } from "../../http/problem.ts";
import { listServiceAccountNames } from "../../service-accounts/service-accounts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Panel } from "../../ui/card.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { formatLogEntry, listLogEntries } from "../../workspaces/audit-log.ts";
import { listMemberNames } from "../../workspaces/members.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Activity · ${data?.workspace.name ?? "Workspace"}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const { requestId } = context;
  if (!workspace.isOwner)
    throw problem("FORBIDDEN", { requestId, detail: "Only owners can see a workspace’s activity." });
  const given = new URL(request.url).searchParams.get("before");
  if (given !== null && !/^\d{1,18}$/.test(given)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "This page of the log doesn’t exist." });
  }
  const place = { workspaceId: workspace.id, requestId };
  const log = await listLogEntries(user, { ...place, before: given === null ? null : Number(given) });
  const userIds = log.entries.flatMap(({ actorId }) => actorId ?? []);
  const [members, serviceAccounts] = await Promise.all([
    listMemberNames(user, { ...place, userIds }),
    listServiceAccountNames(context, workspace.id),
  ]);
  return {
    workspace,
    entries: log.entries.map((entry) => ({
      ...entry,
      actor: entry.actorId ? (members.get(entry.actorId) ?? serviceAccounts.get(entry.actorId) ?? null) : null,
    })),
    next: log.next,
  };
}

export default function ActivityPage() {
  const { entries, next } = useLoaderData<typeof loader>();
  return (
    <Page title="Activity" lead="Changes to this workspace and who made them. Only owners can see this.">
      <Panel>
        {entries.length === 0 ? <p className="text-muted">No changes yet.</p> : null}
        <ul>
          {entries.map((entry) => (
            <li
              key={entry.id}
              className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1 border-line py-2.5 not-first:border-t first:pt-0 last:pb-0"
            >
              <span className="min-w-0">{formatLogEntry(entry)}</span>
              <span className="text-muted text-small">
                <RelativeTime at={entry.at} />
              </span>
            </li>
          ))}
        </ul>
        <PageNav label="Pages of activity" param="before" nextCursor={next === null ? null : String(next)} />
      </Panel>
    </Page>
  );
}
