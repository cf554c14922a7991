import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { searchTerm } from "../../http/search-params.ts";
import { requireFreshUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CodeBlock } from "../../ui/code-block.tsx";
import { ConfirmCard } from "../../ui/confirm-card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Field, Select } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { SearchForm } from "../../ui/search-form.tsx";
import { getMember, listMembers } from "../../workspaces/members.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";
import { applySettingsChange, settingsChange } from "../../workspaces/settings-changes.ts";
import { workspaceFacts } from "../../workspaces/workspace-facts.ts";

export const meta = pageTitle<typeof loader>((data) => `Settings · ${data?.workspace.name ?? "Workspace"}`);

const maxNewOwnerChoices = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const place = { workspaceId: workspace.id, requestId: context.requestId };
  const search = searchTerm(request);
  const heirId = new URL(request.url).searchParams.get("heir");
  const [{ members, nextCursor }, heir] = workspace.isOwner
    ? await Promise.all([
        listMembers(user, { ...place, limit: maxNewOwnerChoices, search }),
        getMember(user, { ...place, userId: heirId === user.id ? null : heirId }),
      ])
    : [{ members: [], nextCursor: null }, null];
  return {
    workspace,
    manages: workspace.permissions.includes("manage_workspace_settings"),
    heirs: members.filter(({ userId }) => userId !== user.id).map(({ userId, name }) => ({ userId, name })),
    moreHeirs: nextCursor !== null,
    search,
    heir: heir && { userId: heir.userId, name: heir.name },
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const typed = Object.fromEntries(await readForm(request, context));
  const change = settingsChange.safeParse(typed);
  if (!change.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  if (change.data.intent !== "rename") await requireFreshUser(context, request);
  const outcome = await applySettingsChange(context, { user, workspace, change: change.data });
  if (outcome.gone) throw redirect("/workspaces");
  return data(
    { ...outcome, typed: String(typed[outcome.failed?.field ?? ""] ?? "") },
    { status: outcome.failed ? 400 : 200 },
  );
}

export default function WorkspaceSettingsPage() {
  const { workspace, manages, heirs, moreHeirs, search, heir } = useLoaderData<typeof loader>();
  const here = `/workspaces/${workspace.id}/settings`;
  const answer = useActionData<typeof action>();
  const failedAt = (field: string) => (answer?.failed?.field === field ? answer.failed.message : undefined);
  const typedAt = (field: string) => (answer?.failed?.field === field ? answer.typed : undefined);
  return (
    <Page title="Settings">
      {answer?.done ? <Notice tone="good">{answer.done}</Notice> : null}
      {answer?.failed ? (
        <ErrorSummary id="settings-error" fields={{ [answer.failed.field]: answer.failed.message }} />
      ) : null}
      {heir && !answer ? (
        <ConfirmCard
          title={`Transfer ${workspace.name} to ${heir.name}?`}
          lead="They’ll become the owner and can remove you. You’ll become an admin, and can’t undo this."
          cancelTo={here}
        >
          <AccountForm action={here}>
            <input type="hidden" name="intent" value="transfer" />
            <input type="hidden" name="userId" value={heir.userId} />
            <Button variant="danger" className="wrap-anywhere">
              Transfer to {heir.name}
            </Button>
          </AccountForm>
        </ConfirmCard>
      ) : null}
      <Card title="Name" lead="Shown to members and in emails.">
        {manages ? (
          <AccountForm action={here} noValidate className="max-w-108 space-y-4">
            <input type="hidden" name="intent" value="rename" />
            <Field
              name="name"
              label="Name"
              required
              maxLength={80}
              defaultValue={typedAt("name") ?? workspace.name}
              error={failedAt("name")}
            />
            <Button variant="secondary">Save name</Button>
          </AccountForm>
        ) : (
          <div className="space-y-1">
            <p className="font-medium">{workspace.name}</p>
            <p className="text-muted">Your role doesn’t allow you to change the name.</p>
          </div>
        )}
      </Card>
      <Card title="About this workspace">
        <div className="space-y-4">
          <FactList facts={workspaceFacts(workspace)} />
          <CodeBlock wrap label="Workspace ID" code={workspace.id} />
        </div>
      </Card>
      {workspace.isOwner ? (
        <Card title="Transfer ownership" lead="Choose a new owner. You’ll become an admin.">
          {moreHeirs || search ? (
            <div className="mb-4">
              <SearchForm label="Find a member" term={search} />
            </div>
          ) : null}
          {heirs.length === 0 ? (
            <p className="text-muted">
              {search ? "No other members match your search." : "There are no other members yet. Invite someone first."}
            </p>
          ) : (
            <form method="get" action={here} className="flex flex-wrap items-end gap-3">
              <Select name="heir" label="New owner" className="basis-56">
                {heirs.map(({ userId, name }) => (
                  <option key={userId} value={userId}>
                    {name}
                  </option>
                ))}
              </Select>
              <Button variant="secondary">Transfer</Button>
            </form>
          )}
        </Card>
      ) : null}
      {manages ? (
        <Card
          danger
          title="Delete workspace"
          lead="All members lose access, and the workspace’s API keys stop working immediately. Usage and billing records are kept. This can’t be undone."
        >
          <AccountForm action={here} noValidate className="max-w-108 space-y-4">
            <input type="hidden" name="intent" value="delete" />
            <Field
              name="confirmation"
              label={`Type “${workspace.name}” to confirm`}
              autoComplete="off"
              required
              defaultValue={typedAt("confirmation")}
              error={failedAt("confirmation")}
            />
            <Button variant="danger">Delete workspace</Button>
          </AccountForm>
        </Card>
      ) : null}
    </Page>
  );
}
