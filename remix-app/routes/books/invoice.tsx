import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData, useSearchParams } from "@remix-run/react";
import { ReasonField } from "../../admin/change-fields.tsx";
import { attachBookDocument } from "../../books/attach-document.ts";
import { comparedCosts } from "../../books/book.ts";
import { requireBook } from "../../books/require-book.ts";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { DocumentCard } from "../../studio/invoices/document-card.tsx";
import { InvoiceComparison } from "../../studio/invoices/invoice-comparison.tsx";
import { documentFormLimits } from "../../studio/invoices/invoice-document.ts";
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

/** Attaches the original document. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const slot = { owner: member.userId, requestId: context.requestId, maxBytes: documentFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => {
    const form = await readForm(request, context, documentFormLimits);
    const { invoiceId } = params;
    const errors = await attachBookDocument(context, { book, member, invoiceId, form });
    if (!errors) throw redirect(`${book.invoices}/${invoiceId}?attached`, 303);
    return data({ errors, reason: String(form.get("reason") ?? "") }, { status: 400 });
  });
}

/** Shows a recorded invoice, who recorded it, and how it compares with the other costs of its period. */
export default function InvoicePage() {
  const { book, invoice, recorded, attachedBy, comparison } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
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
      {searchParams.has("attached") && invoice.document ? <Notice tone="good">Document attached.</Notice> : null}
      {searchParams.has("unattached") ? (
        <Notice tone="warn">
          {invoice.document
            ? "Your document wasn’t attached, because the invoice already has one."
            : "The document wasn’t attached. Attach it below."}
        </Notice>
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
      <DocumentCard
        document={invoice.document}
        attachedBy={attachedBy}
        href={`${book.invoices}/${invoice.id}/document`}
        error={failed?.errors.document}
      >
        {book.isPlatform ? <ReasonField defaultValue={failed?.reason} error={failed?.errors.reason} /> : null}
      </DocumentCard>
      <Card
        title="How it compares"
        lead={`This ${kindNames[kind].toLowerCase()} against ${comparedCosts(book)} for its period, as of today.`}
      >
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
    </StudioPage>
  );
}
