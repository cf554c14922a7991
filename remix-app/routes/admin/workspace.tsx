import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { formatQuantity } from "../../admin/labels.ts";
import { payerLabels } from "../../admin/plans.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { getMoveRestriction, requireConsoleWorkspace } from "../../admin/workspace.ts";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { countOf, formatCount } from "../../ui/format-amount.ts";
import { RelativeTime } from "../../ui/moment.tsx";
import { Credits, Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.workspace.name ?? "Workspace"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const workspace = await requireConsoleWorkspace(context, params.workspaceId);
  const done = new URL(request.url).searchParams.has("done");
  return { workspace, lock: getMoveRestriction(admin, workspace), done };
}

export default function ConsoleWorkspacePage() {
  const { workspace, lock, done } = useLoaderData<typeof loader>();
  const { id, name, createdAt, plan, planId, members, owners, account, approvedAt, approvedBy, liveKeys } = workspace;
  const { thisMonth } = workspace;
  return (
    <Page title={name} lead="A workspace: its plan, credits and keys.">
      {done ? <Notice tone="good">The workspace’s plan is now {plan?.name ?? planId}.</Notice> : null}
      <Card title="Workspace">
        <ul className="space-y-1">
          <li>
            {members} {members === 1 ? "member" : "members"}, created <RelativeTime at={createdAt} />
          </li>
          {owners.map((owner) => (
            <li key={owner.id}>
              Owner:{" "}
              <a className="link" href={`/admin/users/${owner.id}`}>
                <EmailAddress>{owner.email ?? owner.id}</EmailAddress>
              </a>
            </li>
          ))}
          <li>
            <a className="link" href={`/admin/audit?${new URLSearchParams({ target: id })}`}>
              Audit log of this workspace
            </a>
          </li>
        </ul>
        <p className="mt-4 break-all font-mono text-muted text-small">{id}</p>
      </Card>
      <Card
        title="This month"
        lead={`${countOf(thisMonth.requests, "run")}, ${formatCount(thisMonth.failed)} failed`}
        action={<ButtonLink href="/admin/spending">Compare workspaces</ButtonLink>}
      >
        <p>
          Cost <Usd amount={thisMonth.costUsd} />, credits <Credits amount={thisMonth.billedCredits} />
        </p>
      </Card>
      <Card
        title="Plan"
        lead={plan ? `${plan.name}, paid by ${plan.payer === "member" ? "each member" : "the workspace"}` : undefined}
        action={lock ? undefined : <ButtonLink href={`/admin/workspaces/${id}/plan`}>Change plan</ButtonLink>}
      >
        {plan ? (
          <p>
            Markup ×{plan.markup}.{" "}
            <a className="link" href={`/admin/plans/${plan.id}`}>
              View the {plan.name} plan
            </a>
          </p>
        ) : (
          <Notice tone="warn">The plan {planId} doesn’t exist, so requests are refused. Choose another plan.</Notice>
        )}
        {lock ? <p className="mt-3 text-muted">{lock}</p> : null}
      </Card>
      <Card
        title="Credits"
        lead={
          plan?.payer === "member"
            ? `${payerLabels.member} pays from their own balance. The workspace’s balance isn’t used.`
            : "All requests are paid from the workspace’s balance."
        }
        action={<ButtonLink href={`/admin/credits/workspace/${id}`}>View credits</ButtonLink>}
      >
        {account ? (
          <p>
            Balance <Credits amount={account.balance} />, available <Credits amount={account.available} />
          </p>
        ) : (
          <p className="text-muted">No credits yet. The first grant or request opens the credit account.</p>
        )}
        {plan?.payer === "member" ? (
          <ul className="mt-3 space-y-1">
            {owners.map((owner) => (
              <li key={owner.id}>
                <a className="link" href={`/admin/credits/member/${owner.id}`}>
                  Credits of <EmailAddress>{owner.email ?? owner.id}</EmailAddress>
                </a>
              </li>
            ))}
          </ul>
        ) : null}
      </Card>
      <Card
        title="Keys"
        lead={liveKeys === 0 ? "No active keys" : formatQuantity(liveKeys, "active key")}
        action={
          <ButtonLink
            href={`/admin/workspaces/${id}/${approvedAt ? "withdraw" : "approve"}`}
            variant={approvedAt ? "danger" : "secondary"}
          >
            {approvedAt ? "Withdraw approval" : "Approve keys"}
          </ButtonLink>
        }
      >
        {approvedAt ? (
          <p>
            Approved <RelativeTime at={approvedAt} /> by {approvedBy ?? "the operator"}.
          </p>
        ) : (
          <p className="text-muted">Not approved: members can’t create or rotate keys.</p>
        )}
      </Card>
    </Page>
  );
}
