import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { approvalSteps, readWorkspaces } from "../../admin/key-approvals.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { WorkspaceTable } from "../../admin/workspace-table.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Workspaces · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const term = searchTerm(request);
  const found = await readWorkspaces(context, term);
  const done = Object.entries(approvalSteps).find(([step]) => step === searchParams.get("done"))?.[1].done ?? null;
  return { term, ...found, done };
}

export default function ConsoleWorkspacesPage() {
  const { term, workspaces, more, done } = useLoaderData<typeof loader>();
  return (
    <Page
      title="Workspaces"
      lead="Plans, credits, and which workspaces may create keys."
      actions={<ButtonLink href="/admin/spending">By cost</ButtonLink>}
    >
      {done ? <Notice tone="good">{done}</Notice> : null}
      <SearchCard title="Find a workspace" label="Name, ID, or a member’s email" term={term} />
      <Card
        title={term ? `Workspaces that match “${term}”` : "Workspaces that can create keys"}
        lead={more ? "These are the first 50. Enter more of the name to find others." : undefined}
      >
        <WorkspaceTable
          workspaces={workspaces}
          empty={
            term
              ? "No workspace matches. Search for part of its name, its full ID, or a member’s email."
              : "No workspaces approved yet. Search for one to approve."
          }
        />
      </Card>
    </Page>
  );
}
