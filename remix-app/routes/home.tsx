import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { requireUser } from "../session/user.ts";
import { pageTitle } from "../ui/brand.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { GatewayGuide } from "../ui/gateway-guide.tsx";
import { Page } from "../ui/page.tsx";
import { WorkspaceList } from "../ui/workspace-list.tsx";
import { listWorkspaces } from "../workspaces/list-workspaces.ts";

export const meta = pageTitle("Home");

const workspacesShown = 10;

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { requestId } = context;
  const { workspaces, nextCursor } = await listWorkspaces(user, { limit: workspacesShown, requestId });
  return { workspaces, more: nextCursor !== null, gatewayUrl: `${context.env.AI_URL}/v1` };
}

export default function HomePage() {
  const { workspaces, more, gatewayUrl } = useLoaderData<typeof loader>();
  return (
    <Page title="Home" lead="Your workspaces and the AI gateway.">
      <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-2">
        <Card title="Workspaces" lead="Your API keys, credits and usage, by workspace.">
          <WorkspaceList workspaces={workspaces} />
          {more ? (
            <ButtonLink className="mt-3" href="/workspaces">
              All workspaces
            </ButtonLink>
          ) : null}
        </Card>
        <Card
          title="Call the gateway"
          lead="Works with any OpenAI client. Use this base URL and an API key from one of your workspaces."
        >
          <GatewayGuide baseUrl={gatewayUrl} />
        </Card>
      </div>
    </Page>
  );
}
