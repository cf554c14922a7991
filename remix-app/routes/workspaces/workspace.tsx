import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { BudgetsCard } from "../../studio/home/budgets-card.tsx";
import { GatewayCard } from "../../studio/home/gateway-card.tsx";
import { GetStarted } from "../../studio/home/get-started.tsx";
import { readWorkspaceHome, type WorkspaceHome } from "../../studio/home/workspace-home.ts";
import { ModelChart } from "../../studio/usage/model-chart.tsx";
import { OverviewFigures } from "../../studio/usage/overview-summary.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { useSite } from "../../ui/site.ts";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requireWorkspace } from "../../workspaces/permission.ts";
import { workspaceFacts } from "../../workspaces/workspace-facts.ts";

export const meta = pageTitle<typeof loader>((data) => `Overview · ${data?.workspace.name ?? "Workspace"}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requireWorkspace(context, { request, params });
  const { permissions } = workspace;
  const now = new Date();
  const home = permissions.includes("use_ai_studio") ? await readWorkspaceHome(context, { member, now }) : null;
  return { workspace, home, gatewayUrl: `${context.env.AI_URL}/v1` };
}

export default function WorkspaceOverview() {
  const { workspace, home, gatewayUrl } = useLoaderData<typeof loader>();
  const site = useSite();
  const base = `/workspaces/${workspace.id}`;
  if (!home) {
    return (
      <StudioPage title="Overview">
        <Card
          title="About this workspace"
          lead="Your role lets you see members and settings. To see usage and call models, ask an owner for the “Use AI” permission."
        >
          <FactList facts={workspaceFacts(workspace)} />
        </Card>
      </StudioPage>
    );
  }
  return (
    <StudioPage title="Overview" lead={home.overview.everUsed ? "The last 30 days" : undefined}>
      {home.isGettingStarted ? (
        <GetStarted
          base={base}
          email={site?.user?.email ?? ""}
          setup={home.setup}
          everUsed={home.overview.everUsed}
          gatewayUrl={gatewayUrl}
        />
      ) : null}
      {home.overview.everUsed ? <Spend home={home} base={base} /> : null}
      {home.isGettingStarted ? (
        home.budgets.length > 0 && <BudgetsCard budgets={home.budgets} base={base} />
      ) : (
        <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-[minmax(0,1fr)_17rem]">
          <BudgetsCard budgets={home.budgets} base={base} />
          <GatewayCard url={gatewayUrl} />
        </div>
      )}
    </StudioPage>
  );
}

function Spend({ home: { overview, range }, base }: { home: WorkspaceHome; base: string }) {
  const metric = overview.totals.amountUsd === null ? "credits" : "spend";
  return (
    <>
      <OverviewFigures overview={overview} range={range} />
      <Card
        title={metric === "spend" ? "Spend by model" : "Credits by model"}
        lead="Per day (UTC)"
        action={
          <a href={`${base}/ai?by=model`} className="link">
            All usage
          </a>
        }
      >
        {overview.series && overview.totals.requests > 0 ? (
          <ModelChart
            overview={{ ...overview, series: overview.series }}
            range={range}
            metric={metric}
            runsPath={`${base}/ai/runs`}
            table={false}
          />
        ) : (
          <p className="text-muted">No requests in the last 30 days.</p>
        )}
      </Card>
    </>
  );
}
