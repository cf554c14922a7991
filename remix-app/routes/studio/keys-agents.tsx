import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { requireFreshUser } from "../../session/user.ts";
import { agentAnswerSchema, answerAgentAccess, listAgentAccess } from "../../studio/agents/agent-access.ts";
import { AgentAccessCard } from "../../studio/agents/agent-access-card.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Coding agents · ${data?.workspace.name ?? "Workspace"}`);

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  return { workspace, members: await listAgentAccess(context, member) };
}

/**
 * Answers a member's request. An approval lets them create keys, so it requires a recent sign-in, like creating a key.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request);
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const parsed = agentAnswerSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!parsed.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  const counted = await answerAgentAccess(context, { member, ...parsed.data });
  throw redirect(`/workspaces/${workspace.id}/ai/keys?agents=${counted ? parsed.data.answer : "late"}`, 303);
}

export default function KeyAgentsPage() {
  const { workspace, members } = useLoaderData<typeof loader>();
  return (
    <StudioPage
      title="API keys"
      actions={<ButtonLink href={`/workspaces/${workspace.id}/ai/keys`}>All keys</ButtonLink>}
    >
      <AgentAccessCard workspaceId={workspace.id} members={members} />
    </StudioPage>
  );
}
