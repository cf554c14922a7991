import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { count } from "../../admin/labels.ts";
import { monthText } from "../../http/date-text.ts";
import { listProviderCosts } from "../../studio/costs/book.ts";
import { CostList } from "../../studio/costs/cost-list.tsx";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice } from "../../studio/costs/import-guide.tsx";
import { monthWindow, readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Costs · Books · Console");

const recordsShown = 50;

export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const url = new URL(request.url);
  const now = new Date();
  const choice = readMonth(url, { now });
  const { month: _, ...filter } = readImportFilter(url, context);
  const cursor = url.searchParams.get("cursor") ?? undefined;
  const query = { ...monthWindow(choice.month), limit: recordsShown, cursor };
  const page = await listProviderCosts(context, { reader, query, filter });
  return data({ choice, filter, page, now: now.toISOString(), search: url.search }, rangeStatus(choice));
}

export default function ConsoleCostsPage() {
  const { choice, filter, page, search } = useLoaderData<typeof loader>();
  const { totals, records, nextCursor } = page;
  return (
    <Page
      title="Costs"
      lead="Costs imported from providers into the platform’s books."
      actions={
        <>
          <ButtonLink href={`/admin/books?month=${choice.month}`}>Books</ButtonLink>
          <ButtonLink href={`/admin/books/costs.csv${search}`}>Download CSV</ButtonLink>
          <ButtonLink href="/admin/books/import" variant="primary">
            Import a file
          </ButtonLink>
        </>
      }
    >
      <MonthPicker choice={choice} />
      <ImportFilterNotice filter={filter} of="costs" />
      <Card
        title={monthText(choice.month)}
        lead={
          <>
            Total: <Usd amount={totals.amountUsd} />. Dates are the provider’s.{" "}
            {totals.replacedRecords > 0
              ? `${count(totals.replacedRecords, "replaced record")} ${totals.replacedRecords === 1 ? "isn’t" : "aren’t"} included.`
              : null}
          </>
        }
      >
        <CostList
          records={records}
          imports="/admin/books/imports"
          empty={
            Object.keys(filter).length > 0 ? (
              <p>No records match.</p>
            ) : (
              <p>Nothing was imported for this month. Import a provider’s bill or cost export.</p>
            )
          }
        />
        <PageNav
          label="Pages of records"
          nextCursor={nextCursor}
          keep={["month", "provider", "account", "noAccount"]}
        />
      </Card>
    </Page>
  );
}
