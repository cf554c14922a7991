import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { comparedCosts } from "../../books/book.ts";
import { requireBook } from "../../books/require-book.ts";
import { InvoiceComparison } from "../../studio/invoices/invoice-comparison.tsx";
import { requireInvoice } from "../../studio/invoices/invoice-entry.ts";
import {
  followUpPath,
  formatExactTime,
  invoiceFacts,
  kindNames,
  recorderText,
} from "../../studio/invoices/invoice-facts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data?.invoice.reference ?? "Invoice"} · ${data?.book.isPlatform ? data.book.name : "Invoices"}`,
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  return { book, ...(await requireInvoice(context, { member, invoiceId: params.invoiceId })) };
}

/** Shows a recorded invoice, who recorded it, and how it compares with the other costs of its period. */
export default function InvoicePage() {
  const { book, invoice, recorded, comparison } = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const { kind, reference, replacedBy } = invoice;
  return (
    <StudioPage
      title={`${kindNames[kind]} ${reference}`}
      lead="A recorded invoice or credit note can’t be changed or deleted. To correct it, enter a correction that replaces it."
      actions={
        <>
          <ButtonLink href={book.invoices}>All invoices</ButtonLink>
          {replacedBy ? null : (
            <ButtonLink href={followUpPath(book.invoices, { invoice, as: "correction" })}>Enter correction</ButtonLink>
          )}
          {replacedBy || kind === "credit_note" ? null : (
            <ButtonLink href={followUpPath(book.invoices, { invoice, as: "credit_note" })}>
              Enter credit note
            </ButtonLink>
          )}
        </>
      }
    >
      {searchParams.has("recorded") ? (
        <Notice tone="good">{kindNames[kind]} recorded. This is its receipt.</Notice>
      ) : null}
      {replacedBy ? (
        <Notice tone="warn">{replacedBy} replaces it, so it’s no longer counted. It’s kept as it was recorded.</Notice>
      ) : null}
      <Card title="What was recorded">
        <FactList
          facts={[
            ...invoiceFacts(invoice),
            ["Recorded by", recorderText(recorded)],
            ["Recorded at", formatExactTime(invoice.recordedAt)],
            ["Receipt ID", invoice.id],
          ]}
        />
      </Card>
      <Card
        title="How it compares"
        lead={`This ${kindNames[kind].toLowerCase()} against ${comparedCosts(book)} for its period, as of today.`}
      >
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
    </StudioPage>
  );
}
