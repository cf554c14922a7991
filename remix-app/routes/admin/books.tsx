import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { monthLinks, providerPage } from "../../admin/books/book-links.ts";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { reconcilePlatform } from "../../admin/books/platform-month.ts";
import { monthText } from "../../http/date-text.ts";
import { ClashCard } from "../../studio/costs/clash-card.tsx";
import { readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { cellsOf } from "../../studio/costs/reconciliation.ts";
import { ReconciliationTable } from "../../studio/costs/reconciliation-table.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Books · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const now = new Date();
  const choice = readMonth(new URL(request.url), { now });
  const { records, totals, clashes } = await reconcilePlatform(context, { reader, month: choice.month });
  const today = now.toISOString().slice(0, 10);
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return data({ choice, cells, totals, clashes }, rangeStatus(choice));
}

export default function ConsoleBooksPage() {
  const { choice, cells, totals, clashes } = useLoaderData<typeof loader>();
  const ofMonth = `?month=${choice.month}`;
  return (
    <Page
      title="Books"
      lead="The cost of all workspaces’ runs, the costs imported from providers, and the providers’ invoices to the platform."
      actions={
        <>
          <ButtonLink href="/admin/books/invoices">Invoices</ButtonLink>
          <ButtonLink href={`/admin/books/costs${ofMonth}`}>Costs</ButtonLink>
          <ButtonLink href="/admin/books/import" variant="primary">
            Import a file
          </ButtonLink>
        </>
      }
    >
      <MonthPicker choice={choice} />
      <Figures
        figures={[
          { label: "Metered", value: <Usd amount={totals.meteredUsd} />, note: "in all workspaces" },
          { label: "Imported", value: <Usd amount={totals.importedUsd} />, note: "as reported by providers" },
          { label: "Invoiced", value: <Usd amount={totals.invoicedUsd} />, note: "after credit notes" },
        ]}
      />
      <ClashCard clashes={clashes} />
      <Card
        title={monthText(choice.month)}
        lead="Days are in UTC. Provider costs are matched by the date the provider gives, even if it uses another time zone. An invoice that covers several months is split between them by day. Costs and invoices that workspaces enter for themselves aren’t included."
        action={
          <div className="flex flex-wrap gap-2">
            <ButtonLink href={`/admin/books.csv${ofMonth}`}>Download CSV</ButtonLink>
            <ButtonLink href={`/admin/books.focus.csv${ofMonth}`}>Download FOCUS</ButtonLink>
          </div>
        }
      >
        <ReconciliationTable
          cells={cells}
          linksOf={monthLinks}
          providerTo={providerPage}
          empty={
            <p>
              Nothing was metered, imported or invoiced this month. Choose another month, or import a provider’s bill
              for this one.
            </p>
          }
        />
      </Card>
    </Page>
  );
}
