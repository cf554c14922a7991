import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { AccessCard } from "../../admin/account-access-card.tsx";
import {
  AccountLinks,
  AccountState,
  FactorList,
  OtherAccessList,
  PolicyCard,
  SessionList,
  Timeline,
} from "../../admin/account-cards.tsx";
import { accountSteps, parseAccountStep } from "../../admin/account-steps.ts";
import { AddressBlockTable } from "../../admin/address-block-table.tsx";
import { requireAccountPage } from "../../admin/change-policy.ts";
import { mfaPolicyChanges } from "../../admin/policy-step.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.account.email ?? "Account"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const cursor = searchParams.get("cursor");
  const page = { admin, subjectId: params.userId, cursor };
  const { account, policy, timeline, blocks } = await requireAccountPage(context, page);
  const step = searchParams.get("done");
  const accountStep = parseAccountStep(step);
  const done = accountStep
    ? accountSteps[accountStep].done
    : (Object.entries(mfaPolicyChanges).find(([name]) => name === step)?.[1].done ?? null);
  const { state, locks } = policy;
  const oneself = account.id === admin.id;
  return { account, policy: { state, locks }, timeline, blocks, cursor, done, oneself };
}

const roleLeads = {
  admin: "This account can use the console.",
  finance: "This account can use the platform’s books in the console, and nothing else there.",
};

export default function ConsoleUserPage() {
  const { account, policy, timeline, blocks, cursor, done, oneself } = useLoaderData<typeof loader>();
  const base = `/admin/users/${account.id}`;
  return (
    <Page title={account.email ? <EmailTitle email={account.email} /> : "Account"} lead={account.displayName}>
      {done ? <Notice tone="good">{done}</Notice> : null}
      <Card title="State" lead={account.consoleRole ? roleLeads[account.consoleRole] : undefined}>
        <AccountState account={account} policy={policy} />
        <p className="mt-4 break-all font-mono text-muted text-small">{account.id}</p>
        <AccountLinks id={account.id} email={account.email} />
      </Card>
      <AccessCard account={account} oneself={oneself} />
      <PolicyCard id={account.id} policy={policy} />
      <Card title="Authenticators">
        <FactorList factors={account.factors} />
      </Card>
      <Card
        title="Sessions"
        lead="Where the account is signed in."
        action={
          oneself ? null : (
            <ButtonLink href={`${base}/sign-out`} variant="danger">
              Sign out everywhere
            </ButtonLink>
          )
        }
      >
        <SessionList sessions={account.sessions} sessionCount={account.sessionCount} />
      </Card>
      <Card title="Apps, devices and agents" lead="“Sign out everywhere” also ends apps, devices and coding agents.">
        <OtherAccessList others={account.others} />
      </Card>
      <Card
        id="blocks"
        title="Blocked IP addresses"
        lead="Blocked IP addresses that this account used recently. If sign-in fails from another IP address, search for that one."
        action={<ButtonLink href="/admin/address-blocks">Find an IP address</ButtonLink>}
      >
        <AddressBlockTable blocks={blocks} empty="None of the account’s recent IP addresses is blocked." />
      </Card>
      <Card
        id="timeline"
        title={cursor ? "Timeline, earlier" : "Timeline"}
        lead="Actions by the account’s owner and by admins."
      >
        <Timeline entries={timeline.entries} />
        <nav aria-label="Timeline" className="mt-4 flex gap-4 empty:hidden">
          {cursor ? (
            <a className="link" href={`${base}#timeline`}>
              Newest
            </a>
          ) : null}
          {timeline.nextCursor ? (
            <a className="link" href={`${base}?${new URLSearchParams({ cursor: timeline.nextCursor })}#timeline`}>
              Earlier
            </a>
          ) : null}
        </nav>
      </Card>
    </Page>
  );
}

/** Turns off the balanced line breaks of headings, so that a long email breaks before its @. */
function EmailTitle({ email }: { email: string }) {
  return (
    <span className="block [text-wrap:wrap]">
      <EmailAddress whole>{email}</EmailAddress>
    </span>
  );
}
