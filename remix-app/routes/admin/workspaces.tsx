import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { searchWorkspaces } from "../../admin/key-approvals.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { WorkspaceTable } from "../../admin/workspace-table.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { Card } from "../../ui/card.tsx";
import { ConsolePage } from "../../ui/console-page.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta: MetaFunction = () => [{ title: "Key approvals · Console · Gatehouse" }];

const doneWords: Record<string, string> = {
  approve: "The workspace may make and rotate keys from now on.",
  withdraw: "The workspace makes no more keys. Those that exist keep working.",
};

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const term = searchTerm(request);
  const done = searchParams.get("done") ?? "";
  const found = await searchWorkspaces(context, term);
  return { term, ...found, done: Object.hasOwn(doneWords, done) ? done : null };
}

export default function ConsoleWorkspacesPage() {
  const { term, workspaces, more, done } = useLoaderData<typeof loader>();
  return (
    <ConsolePage title="Key approvals" lead="Which workspaces may make keys.">
      {done ? <Notice tone="good">{doneWords[done]}</Notice> : null}
      <SearchCard title="Find a workspace" label="Name, id, or a member's email" term={term} />
      <Card
        title={term ? `Workspaces that match “${term}”` : "Workspaces that may make keys"}
        lead={more ? "These are the first 50. Search for more of the name to narrow them." : undefined}
      >
        <WorkspaceTable
          workspaces={workspaces}
          empty={
            term
              ? "No workspace matches. Look for a part of its name, its whole id, or a member's email."
              : "No workspace may yet. Search for one to approve."
          }
        />
      </Card>
    </ConsolePage>
  );
}
