import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { AgentAccessCard, agentAnswerMessages } from "../../studio/agents/agent-access-card.tsx";
import { ApprovalCard } from "../../studio/keys/approval-card.tsx";
import { isLive, KeyList, KeyRevocation } from "../../studio/keys/key-list.tsx";
import { readKeysPage, revokeKey } from "../../studio/keys/keys.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `API keys · ${data?.workspace.name ?? "Workspace"}`);

const keysShown = 50;

const revocationFormSchema = z.object({ keyId: z.uuid() });

const permission = "manage_ai_keys";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const { searchParams } = new URL(request.url);
  const cursor = searchParams.get("cursor") ?? undefined;
  const page = await readKeysPage(context, { ...member, limit: keysShown, cursor });
  const { agents, approvalState, ...listed } = page;
  const keyToRevoke = listed.keys
    .flatMap((key) => [key, ...key.replaced])
    .find((key) => key.id === searchParams.get("revoke"));
  return {
    workspace,
    ...listed,
    agents,
    agentAnswer: agentAnswerMessages[searchParams.get("agents") ?? ""] ?? null,
    request: listed.approval ? null : approvalState,
    revoking: keyToRevoke
      ? { id: keyToRevoke.id, name: keyToRevoke.name, live: isLive(keyToRevoke), isAgent: keyToRevoke.agent !== null }
      : null,
    saved: searchParams.has("saved"),
    page: cursor ? `?${new URLSearchParams({ cursor })}` : "",
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission });
  const parsed = revocationFormSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!parsed.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  await revokeKey(context, { ...member, keyId: parsed.data.keyId });
  return { done: "Revoked. The key no longer works." };
}

export default function KeysPage() {
  const shown = useLoaderData<typeof loader>();
  const { workspace, approval, request, keys, agents, agentAnswer, revoking, saved, page, nextCursor } = shown;
  const answer = useActionData<typeof action>();
  const path = `/workspaces/${workspace.id}/ai/keys`;
  const here = `${path}${page}`;
  const toRevoke = answer ? null : revoking;
  return (
    <StudioPage
      title="API keys"
      lead={`Use these to call the gateway. Each key is shown once, when you create it.${keys.length > 0 ? " “Spent this month” (UTC) includes what a key’s replaced versions spent." : ""}`}
      actions={
        <>
          {keys.length > 0 ? (
            <ButtonLink href={`/workspaces/${workspace.id}/ai/keys.csv`}>Download CSV</ButtonLink>
          ) : null}
          {approval ? (
            <ButtonLink href={`${path}/new`} variant="primary">
              Create key
            </ButtonLink>
          ) : null}
        </>
      }
    >
      {answer?.done ? <Notice tone="good">{answer.done}</Notice> : null}
      {saved && !answer && !toRevoke ? <Notice tone="good">Key saved.</Notice> : null}
      {agentAnswer && !answer && !toRevoke ? <Notice>{agentAnswer}</Notice> : null}
      {toRevoke?.live ? <KeyRevocation {...toRevoke} here={here} /> : null}
      {toRevoke && !toRevoke.live ? (
        <Notice>{toRevoke.name} had already stopped working. Nothing was changed.</Notice>
      ) : null}
      {request ? <ApprovalCard workspaceId={workspace.id} approval={request} /> : null}
      {agents.length > 0 ? <AgentAccessCard workspaceId={workspace.id} members={agents} /> : null}
      <Panel>
        <KeyList keys={keys} mayRotate={approval !== null} path={path} page={page} />
        <PageNav label="Pages of keys" nextCursor={nextCursor} />
      </Panel>
    </StudioPage>
  );
}
