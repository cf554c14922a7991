import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { Card } from "../../ui/card.tsx";
import { GatewayGuide } from "../../ui/gateway-guide.tsx";
import { Snippet } from "../../ui/snippet.tsx";
import { WorkspacePage } from "../../ui/workspace-page.tsx";
import { requireWorkspace } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace } = await requireWorkspace(context, { request, params });
  return { workspace, gatewayUrl: `${context.env.AI_URL}/v1` };
}

export default function WorkspaceOverview() {
  const { workspace, gatewayUrl } = useLoaderData<typeof loader>();
  const facts = [
    ["Plan", workspace.planId],
    ["Kind", workspace.personal ? "personal" : "shared"],
    ["Your role", workspace.role],
  ] as const;
  return (
    <WorkspacePage workspace={workspace}>
      <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-2">
        <Card title="About this workspace">
          <dl className="mb-4 grid grid-cols-[auto_1fr] gap-x-8 gap-y-2">
            {facts.map(([term, value]) => (
              <div key={term} className="contents">
                <dt className="text-muted">{term}</dt>
                <dd className="first-letter:uppercase">{value}</dd>
              </div>
            ))}
          </dl>
          <Snippet label="Workspace id" code={workspace.id} />
        </Card>
        <Card
          title="Call the gateway"
          lead="It speaks OpenAI's API: point any client at this address and use a key of this workspace."
        >
          <GatewayGuide baseUrl={gatewayUrl} />
        </Card>
      </div>
    </WorkspacePage>
  );
}
