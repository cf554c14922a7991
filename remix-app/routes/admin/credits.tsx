import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { creditChangeKinds, getCreditRestriction, requireCreditAccount } from "../../admin/credits.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { Figures } from "../../studio/figures.tsx";
import { LedgerTable } from "../../studio/usage/ledger.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle<typeof loader>((data) => `Credits · ${data?.owner.name ?? "Account"} · Console`);

const completionMessages: Record<string, string> = {
  grant: creditChangeKinds.grant.done,
  withdraw: creditChangeKinds.withdraw.done,
  repeated: "This reference was already used for the same amount. Nothing was changed.",
};

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const { payer, ownerId } = params;
  const owner = await requireCreditAccount(context, { payer, ownerId, cursor: searchParams.get("cursor") });
  const done = searchParams.get("done") ?? "";
  return {
    owner,
    lock: getCreditRestriction(admin, owner),
    done: Object.hasOwn(completionMessages, done) ? done : null,
  };
}

export default function ConsoleCreditsPage() {
  const { owner, lock, done } = useLoaderData<typeof loader>();
  const { payer, id, name, plan, account, entries, nextCursor } = owner;
  const base = `/admin/credits/${payer}/${id}`;
  return (
    <Page title="Credits" lead={name}>
      {done ? <Notice tone={done === "repeated" ? "info" : "good"}>{completionMessages[done]}</Notice> : null}
      {lock ? <Notice>{lock}</Notice> : null}
      {account?.refusedAt ? (
        <Notice tone="warn">
          A request was refused for lack of credits <RelativeTime at={account.refusedAt} />.
        </Notice>
      ) : null}
      <Figures
        figures={[
          { label: "Balance", value: <Credits amount={account?.balance ?? null} /> },
          {
            label: "Reserved",
            value: <Credits amount={account?.reserved ?? null} />,
            note: "Held by requests in progress",
          },
          {
            label: "Available",
            value: <Credits amount={account?.available ?? null} />,
            note: account ? undefined : "Opened by the first grant or request",
          },
        ]}
      />
      <Card
        title="Account"
        lead={
          plan ? (
            <>
              On the {plan.name} plan. Warns when the balance falls below <Credits amount={plan.lowCredits} /> credits.
            </>
          ) : (
            "Requests aren’t paid from this balance, because the plan charges another one."
          )
        }
        action={
          lock ? undefined : (
            <div className="flex flex-wrap gap-3">
              <ButtonLink href={`${base}/grant`} variant="primary">
                Grant credits
              </ButtonLink>
              <ButtonLink href={`${base}/withdraw`}>Withdraw credits</ButtonLink>
            </div>
          )
        }
      >
        <p>
          <a className="link" href={payer === "workspace" ? `/admin/workspaces/${id}` : `/admin/users/${id}`}>
            {payer === "workspace" ? "View workspace" : "View account"}
          </a>
        </p>
      </Card>
      <Card id="ledger" title="Ledger" lead="Every change to the balance, newest first.">
        <LedgerTable
          entries={entries}
          runs="/admin/runs"
          deduction="Withdrawal"
          empty="No entries yet. Grants, withdrawals and charged requests appear here."
        />
        <PageNav label="Pages of the ledger" nextCursor={nextCursor} card="ledger" />
      </Card>
    </Page>
  );
}
