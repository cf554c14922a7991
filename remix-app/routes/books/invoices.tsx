import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { requireBook } from "../../books/require-book.ts";
import { listProviderInvoices } from "../../studio/costs/book.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice } from "../../studio/costs/import-guide.tsx";
import { Figures } from "../../studio/figures.tsx";
import { InvoiceList } from "../../studio/invoices/invoice-list.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>((data) => `Invoices · ${data?.book.name ?? "Workspace"}`);

const recordsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const url = new URL(request.url);
  const filter = readImportFilter(url, context);
  const query = { limit: recordsShown, cursor: url.searchParams.get("cursor") ?? undefined };
  const page = await listProviderInvoices(context, { reader: member, query, filter });
  return { book, filter, page };
}

export default function InvoicesPage() {
  const { book, filter, page } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const { totals, records, nextCursor } = page;
  return (
    <StudioPage
      title="Invoices"
      lead={
        book.isPlatform
          ? "Providers’ invoices to the platform. Recorded invoices can’t be changed."
          : "Reviewed invoices and credit notes from providers. Once recorded, they can’t be changed or deleted."
      }
      actions={
        <>
          {book.isPlatform ? <ButtonLink href={book.reconciliation}>Books</ButtonLink> : null}
          <ButtonLink href={`${book.invoices}.csv${search}`}>Download CSV</ButtonLink>
          <ButtonLink href={`${book.invoices}/new`} variant="primary">
            Enter invoice
          </ButtonLink>
        </>
      }
    >
      <ImportFilterNotice filter={filter} of="invoices" />
      <Figures
        figures={[
          { label: "Invoiced", value: <Usd amount={totals.amountUsd} /> },
          { label: "Invoices and credit notes", value: totals.records.toLocaleString("en") },
          ...(totals.replacedRecords > 0
            ? [{ label: "Replaced", value: totals.replacedRecords.toLocaleString("en"), note: "not counted" }]
            : []),
        ]}
      />
      <Card title={book.isPlatform ? "The platform’s invoices" : "All invoices"}>
        <InvoiceList
          records={records}
          base={book.invoices}
          empty={
            Object.keys(filter).length > 0 ? (
              <p>No invoices match.</p>
            ) : (
              <p>
                No invoices yet. When a provider’s invoice arrives, enter it here to compare it with the month’s costs.
                {book.isPlatform ? null : (
                  <>
                    {" "}
                    Registered apps can also send reviewed invoices to <code>POST /v1/provider-invoices</code>.
                  </>
                )}
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
    </StudioPage>
  );
}
