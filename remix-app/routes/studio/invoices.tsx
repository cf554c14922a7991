import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { listProviderInvoices } from "../../studio/costs/book.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice } from "../../studio/costs/import-guide.tsx";
import { Figures } from "../../studio/figures.tsx";
import { InvoiceList } from "../../studio/invoices/invoice-list.tsx";
import { searchWith } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink, buttonClass } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Invoices · ${data?.workspace.name ?? "Workspace"}`);

const recordsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const url = new URL(request.url);
  const filter = readImportFilter(url, context);
  const query = { limit: recordsShown, cursor: url.searchParams.get("cursor") ?? undefined };
  const page = await listProviderInvoices(context, { reader: member, query, filter });
  return { workspace, filter, page };
}

export default function InvoicesPage() {
  const { workspace, filter, page } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const base = `/workspaces/${workspace.id}/ai/invoices`;
  const { totals, records, nextCursor } = page;
  const filtered = Object.keys(filter).length > 0;
  return (
    <StudioPage
      title="Invoices"
      lead="Reviewed invoices and credit notes from providers. Once recorded, they can’t be changed or deleted."
      actions={
        <>
          <ButtonLink href={`${base}.csv${search}`}>Download CSV</ButtonLink>
          <a href={`${base}/new`} className={buttonClass()}>
            Enter invoice
          </a>
        </>
      }
    >
      <ImportFilterNotice filter={filter} of="invoices" />
      <Figures
        figures={[
          { label: "Invoiced", value: <Usd amount={totals.amountUsd} /> },
          { label: "Invoices and credit notes", value: totals.records.toLocaleString("en") },
          ...(totals.replacedRecords > 0
            ? [{ label: "Replaced", value: totals.replacedRecords.toLocaleString("en") }]
            : []),
        ]}
      />
      <Card title="All invoices">
        <InvoiceList
          records={records}
          base={base}
          empty={
            filtered ? (
              <p>No invoices match.</p>
            ) : (
              <p>
                No invoices yet. When a provider’s invoice arrives, enter it here to compare it with the month’s costs.
                Registered apps can also send reviewed invoices to <code>POST /v1/provider-invoices</code>.
              </p>
            )
          }
        />
        {nextCursor ? (
          <p className="pt-4">
            <a className="link" href={searchWith(search, { cursor: nextCursor })}>
              Older invoices
            </a>
          </p>
        ) : null}
      </Card>
    </StudioPage>
  );
}
