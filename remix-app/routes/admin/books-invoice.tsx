import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { requireInvoice } from "../../studio/invoices/invoice-entry.ts";
import { followUpPath, kindNames } from "../../studio/invoices/invoice-facts.ts";
import { InvoiceReceiptCards } from "../../studio/invoices/invoice-receipt.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.invoice.reference ?? "Invoice"} · Books · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const missing = "This invoice doesn’t exist.";
  return await requireInvoice(context, { member, invoiceId: params.invoiceId, missing });
}

export default function ConsoleInvoicePage() {
  const { invoice, recorded, comparison } = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const base = "/admin/books/invoices";
  return (
    <Page
      title={`${kindNames[invoice.kind]} ${invoice.reference}`}
      lead="A recorded invoice or credit note can’t be changed or deleted. To correct it, enter a correction that replaces it."
      actions={
        <>
          <ButtonLink href={base}>All invoices</ButtonLink>
          {invoice.replacedBy ? null : (
            <ButtonLink href={followUpPath(base, { invoice, as: "correction" })}>Enter correction</ButtonLink>
          )}
          {invoice.replacedBy || invoice.kind === "credit_note" ? null : (
            <ButtonLink href={followUpPath(base, { invoice, as: "credit_note" })}>Enter credit note</ButtonLink>
          )}
        </>
      }
    >
      {searchParams.has("recorded") ? (
        <Notice tone="good">{kindNames[invoice.kind]} recorded. This is its receipt.</Notice>
      ) : null}
      {invoice.replacedBy ? (
        <Notice tone="warn">{invoice.replacedBy} replaces it, so it’s no longer counted.</Notice>
      ) : null}
      <InvoiceReceiptCards
        invoice={invoice}
        recorded={recorded}
        comparison={comparison}
        comparedWith="what all workspaces’ runs cost and what was imported"
      />
    </Page>
  );
}
