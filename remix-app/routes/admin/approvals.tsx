import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { approvalSteps, readApprovals } from "../../admin/key-approvals.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { KeyRequestTable } from "../../admin/workspace-table.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { countText } from "../../ui/count-text.ts";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Approvals · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const page = await readApprovals(context, searchParams.get("cursor"));
  const done = Object.entries(approvalSteps).find(([step]) => step === searchParams.get("done"))?.[1].done ?? null;
  return { ...page, done };
}

export default function ConsoleApprovalsPage() {
  const { count, waiting, nextCursor, done } = useLoaderData<typeof loader>();
  return (
    <Page title="Approvals" lead="Workspaces waiting for approval to create keys.">
      {done ? <Notice tone="good">{done}</Notice> : null}
      <Card
        title={count === 0 ? "Waiting" : `Waiting (${countText(count)})`}
        lead="Oldest request first."
        action={<ButtonLink href="/admin/workspaces">Approved workspaces</ButtonLink>}
      >
        <KeyRequestTable waiting={waiting} />
        <PageNav label="Pages of requests" nextCursor={nextCursor} />
      </Card>
    </Page>
  );
}
