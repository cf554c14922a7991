import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { listPlans, payerLabels } from "../../admin/plans.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { Credits } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Plans · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  return { plans: await listPlans(context), done: new URL(request.url).searchParams.has("done") };
}

const formatLimit = (number: number | null) => (number === null ? "No limit" : number.toLocaleString("en"));

export default function ConsolePlansPage() {
  const { plans, done } = useLoaderData<typeof loader>();
  return (
    <Page title="Plans" lead="A plan sets the markup, the limits, and who pays for a workspace’s requests.">
      {done ? <Notice tone="good">Plan saved.</Notice> : null}
      <Card
        title="All plans"
        action={
          <ButtonLink href="/admin/plans/new" variant="primary">
            Add plan
          </ButtonLink>
        }
      >
        <DataTable
          caption="Plans"
          from="lg"
          rows={plans}
          rowKey={({ id }) => id}
          empty="No plans yet. Add one with the ID free: new workspaces get it."
          columns={[
            {
              label: "Plan",
              cell: ({ id, name }) => (
                <>
                  <a className="link font-medium" href={`/admin/plans/${id}`}>
                    {name}
                  </a>
                  <span className="block break-all font-mono text-muted text-small">{id}</span>
                </>
              ),
            },
            { label: "Paid by", cell: ({ payer }) => payerLabels[payer] },
            { label: "Markup", numeric: true, small: "aside", cell: ({ markup }) => `×${markup}` },
            {
              label: "Initial credits",
              numeric: true,
              cell: ({ initialCredits }) => <Credits amount={initialCredits} />,
            },
            { label: "Warns below", numeric: true, cell: ({ warnsBelow }) => <Credits amount={warnsBelow} /> },
            {
              label: "Requests per minute",
              numeric: true,
              cell: ({ requestsPerMinute }) => formatLimit(requestsPerMinute),
            },
            { label: "Tokens per minute", numeric: true, cell: ({ tokensPerMinute }) => formatLimit(tokensPerMinute) },
            { label: "Models", numeric: true, cell: ({ models }) => models },
            { label: "Workspaces", numeric: true, cell: ({ workspaces }) => formatLimit(workspaces) },
          ]}
        />
      </Card>
    </Page>
  );
}
