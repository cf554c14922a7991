import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { platformBook, providerPage } from "../../books/book.ts";
import { CauseList } from "../../books/cause-list.tsx";
import { countDays } from "../../books/day-lines.ts";
import { DayTable } from "../../books/day-table.tsx";
import { matchingOf } from "../../books/matching/matching.ts";
import { explainPlatformMonth, readBookMonth } from "../../books/platform-month.ts";
import { recordLinks } from "../../books/reconciliation-links.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { BookWorkspaceTable } from "../../books/workspace-table.tsx";
import { monthText } from "../../http/date-text.ts";
import { cellsOf } from "../../studio/costs/reconciliation.ts";
import { ReconciliationTable, shownSums } from "../../studio/costs/reconciliation-table.tsx";
import { RoundingNote } from "../../studio/costs/rounding-note.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data ? `${data.provider} in ${monthText(data.month)}` : "A provider’s month"} · ${platformBook.name}`,
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const { month, provider } = readBookMonth(params, context);
  const { record, workspaces, days, causes } = await explainPlatformMonth(context, { reader, month, provider });
  const cells = cellsOf(record, { today: new Date().toISOString().slice(0, 10) });
  return { month, provider, cells, workspaces, days, causes };
}

export default function ConsoleProviderMonthPage() {
  const { month, provider, cells, workspaces, days, causes } = useLoaderData<typeof loader>();
  return (
    <Page
      title={`${provider} in ${monthText(month)}`}
      lead="The platform’s figures for this provider, and what explains a difference between them."
      actions={<ButtonLink href={`${platformBook.reconciliation}?month=${month}`}>All providers</ButtonLink>}
    >
      {causes.length > 0 ? (
        <Card
          id="causes"
          title="Likely causes"
          lead="Most likely first. Amounts are what the provider charged beyond the metered cost. Causes can overlap, so don’t add the amounts up."
        >
          <CauseList causes={causes} />
        </Card>
      ) : null}
      <Card title={monthText(month)} lead="The platform’s books, by account.">
        <ReconciliationTable
          cells={cells}
          linksOf={(cell, only) => recordLinks(cell, { book: platformBook, only })}
          empty={null}
        />
        <RoundingNote sums={shownSums(cells)} />
      </Card>
      <Card
        title="Workspaces"
        lead="Metered cost by workspace. “Own imports” are costs that a workspace imported itself. They aren’t in the platform’s books, but can show that runs of that workspace are missing."
        action={<ButtonLink href={`${providerPage({ month, provider })}/workspaces.csv`}>Download CSV</ButtonLink>}
      >
        <BookWorkspaceTable workspaces={workspaces} />
      </Card>
      <Card
        title="Days"
        lead={`${countDays(days)}. Imported costs use the provider’s dates, metered costs use UTC. A request near midnight can fall on different days.${matchingOf(provider) ? " Open a day with a difference to find its calls." : ""}`}
        action={<ButtonLink href={`${providerPage({ month, provider })}/days.csv`}>Download CSV</ButtonLink>}
      >
        <DayTable days={days} provider={provider} />
      </Card>
    </Page>
  );
}
