import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { listSpending, readSpendingQuery, requireSpendingReader } from "../../admin/spending.ts";
import { SpendingTable } from "../../admin/spending-table.tsx";
import { monthText } from "../../http/date-text.ts";
import { Choices } from "../../studio/choices.tsx";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { countOf, formatCount } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { useSite } from "../../ui/site.ts";

export const meta = pageTitle("Spending · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const url = new URL(request.url);
  const query = readSpendingQuery(url);
  await requireSpendingReader(context, { request, by: query.by });
  const page = await listSpending(context, { query, cursor: url.searchParams.get("cursor") });
  return data({ ...query, ...page }, rangeStatus(query.choice));
}

export default function ConsoleSpendingPage() {
  const { choice, by, sort, spenders, totals, nextCursor } = useLoaderData<typeof loader>();
  const isAdmin = useSite()?.user?.consoleRole === "admin";
  const file = new URLSearchParams({ month: choice.month, by, sort });
  const byAccount = by === "account";
  return (
    <Page
      title="Spending"
      lead={isAdmin ? "What each workspace and account spends in a month." : "What each workspace spends in a month."}
      actions={
        <>
          <ButtonLink href={`/admin/books?${new URLSearchParams({ month: choice.month })}`}>Books</ButtonLink>
          <ButtonLink href={`/admin/spending.csv?${file}`}>Download CSV</ButtonLink>
        </>
      }
    >
      <MonthPicker choice={choice} />
      {isAdmin ? (
        <Choices
          label="Spending by"
          name="by"
          options={[
            { value: "", label: "Workspace" },
            { value: "account", label: "Account" },
          ]}
          chosen={byAccount ? by : ""}
        />
      ) : null}
      <Figures
        figures={[
          {
            label: "Cost",
            value: <Usd amount={totals.costUsd} />,
            note: `of ${countOf(totals.owners, byAccount ? "account" : "workspace")}`,
          },
          { label: "Credits", value: <Credits amount={totals.billedCredits} />, note: "taken from balances" },
          { label: "Runs", value: formatCount(totals.requests), note: `${formatCount(totals.failed)} failed` },
        ]}
      />
      <Card
        title={monthText(choice.month)}
        lead={`Cost is what providers charge the platform. Credits were paid from balances; the balance is the current one. ${byAccount ? "A key’s runs belong to the account that created it. " : ""}Days are in UTC.`}
      >
        <SpendingTable spenders={spenders} by={by} sort={sort} />
        <PageNav
          label={byAccount ? "Pages of accounts" : "Pages of workspaces"}
          nextCursor={nextCursor}
          keep={["month", "by", "sort"]}
        />
      </Card>
    </Page>
  );
}
