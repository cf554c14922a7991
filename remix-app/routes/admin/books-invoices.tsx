import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { count } from "../../admin/labels.ts";
import { monthText } from "../../http/date-text.ts";
import { listProviderInvoices } from "../../studio/costs/book.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice } from "../../studio/costs/import-guide.tsx";
import { InvoiceList } from "../../studio/invoices/invoice-list.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Invoices · Books · Console");

const recordsShown = 50;

export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const url = new URL(request.url);
  const filter = readImportFilter(url, context);
  const query = { limit: recordsShown, cursor: url.searchParams.get("cursor") ?? undefined };
  const page = await listProviderInvoices(context, { reader, query, filter });
  return { filter, page };
}

export default function ConsoleInvoicesPage() {
  const { filter, page } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const { totals, records, nextCursor } = page;
  return (
    <Page
      title="Invoices"
      lead="Providers’ invoices to the platform. Recorded invoices can’t be changed."
      actions={
        <>
          <ButtonLink href="/admin/books">Books</ButtonLink>
          <ButtonLink href={`/admin/books/invoices.csv${search}`}>Download CSV</ButtonLink>
          <ButtonLink href="/admin/books/invoices/new" variant="primary">
            Enter invoice
          </ButtonLink>
        </>
      }
    >
      <ImportFilterNotice filter={filter} of="invoices" />
      <Card
        title="The platform’s invoices"
        lead={
          <>
            {filter.month ? `Total for ${monthText(filter.month)}: ` : "Total: "}
            <Usd amount={totals.amountUsd} />.{" "}
            {totals.replacedRecords > 0
              ? `${count(totals.replacedRecords, "replaced invoice")} ${totals.replacedRecords === 1 ? "isn’t" : "aren’t"} included.`
              : null}
          </>
        }
      >
        <InvoiceList
          records={records}
          base="/admin/books/invoices"
          empty={
            Object.keys(filter).length > 0 ? (
              <p>No invoices match.</p>
            ) : (
              <p>
                No invoices yet. When a provider’s invoice arrives, enter it here to compare it with the month’s costs.
              </p>
            )
          }
        />
        <PageNav
          label="Pages of invoices"
          nextCursor={nextCursor}
          keep={["provider", "account", "noAccount", "month"]}
        />
      </Card>
    </Page>
  );
}
