import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus, readRange, searchWith } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { BalanceChanges, CreditsUsed } from "../../studio/usage/credit-totals.tsx";
import { LedgerTable } from "../../studio/usage/ledger.tsx";
import { readCredits } from "../../studio/usage/usage.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Credits, Usd } from "../../ui/money.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Credits · ${data?.workspace.name ?? "Workspace"}`);

const entriesShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member: reader } = await requirePermission(context, {
    request,
    params,
    permission: "use_ai_studio",
  });
  const url = new URL(request.url);
  const now = new Date();
  const range = readRange(url, { now });
  const cursor = url.searchParams.get("cursor") ?? undefined;
  const query = { from: range.from, to: range.to, limit: entriesShown, cursor };
  const credits = await readCredits(context, { reader, query });
  return data({ workspace, range, ...credits }, rangeStatus(range));
}

export default function CreditsPage() {
  const { workspace, range, payer, accounts, elsewhere, totals, entries, nextCursor } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const paying = accounts.find((account) => account.payer === payer);
  const other = accounts.find((account) => account.payer !== payer);
  const own = payer === "member";
  return (
    <StudioPage
      title="Credits"
      lead={
        own
          ? "Each member pays from their own balance. This is yours. Requests made with an API key are paid by the member who created the key."
          : "Requests in this workspace are paid from its credit balance. Requests from external apps aren’t billed."
      }
      actions={
        <>
          <ButtonLink href={`/workspaces/${workspace.id}/ai/credits/statement`}>Monthly statement</ButtonLink>
          <ButtonLink href={`/workspaces/${workspace.id}/ai/credits.csv${searchWith(search, {})}`}>
            Download CSV
          </ButtonLink>
        </>
      }
    >
      <RangeForm range={range} />
      <Figures
        figures={[
          {
            label: own ? "Your available credits" : "Available",
            value: <Credits amount={paying?.available ?? null} />,
            note: paying
              ? availableNote(paying.availableUsd)
              : own
                ? "Your balance starts with your first request"
                : "The balance starts with the first request",
          },
          { label: "Balance", value: <Credits amount={paying?.balance ?? null} />, note: "Now" },
          {
            label: "Reserved",
            value: <Credits amount={paying?.reserved ?? null} />,
            note: "Held by requests in progress",
          },
          {
            label: own ? "Used by all members" : "Used",
            value: <Credits amount={totals.usedCredits} />,
            note: "In this range",
          },
        ]}
      />
      {other ? (
        <p className="text-muted">
          {own ? "The workspace’s balance, not used now" : "Your own balance"}: <Credits amount={other.balance} />
        </p>
      ) : null}
      {[paying, other].map((account) =>
        account ? (
          <Card
            key={account.payer}
            title={account.payer === "member" ? "Your balance in this range" : "The workspace’s balance in this range"}
            lead={
              account.payer === payer
                ? undefined
                : "Not used now. It paid under an earlier plan, or will after a change of plan."
            }
          >
            <BalanceChanges payer={account.payer} changes={account.changes} />
          </Card>
        ) : null,
      )}
      <Card title="Used in this range" lead={own ? "What all members of this workspace used." : undefined}>
        <CreditsUsed totals={totals} elsewhere={elsewhere} accounts={accounts} payer={payer} />
      </Card>
      <Card
        title="Ledger"
        lead={
          own
            ? "Changes to your balance from this workspace. Your other workspaces on this plan share this balance. Their runs reduce it too, but aren’t listed here."
            : "Every change to the balance, newest first."
        }
      >
        <LedgerTable
          entries={entries}
          runs={`/workspaces/${workspace.id}/ai/runs`}
          deduction="Deduction"
          empty="No credits were added, deducted or used in this range."
        />
        <PageNav label="Pages of the ledger" nextCursor={nextCursor} keep={["range", "from", "to"]} />
      </Card>
    </StudioPage>
  );
}

function availableNote(usd: string | null) {
  if (usd === null) return "Now";
  return (
    <>
      Now; pays for <Usd amount={usd} /> of provider cost
    </>
  );
}
