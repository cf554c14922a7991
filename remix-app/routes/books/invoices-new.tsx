import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { type BookInvoiceEntry, enterBookInvoice, statusOfEntry } from "../../books/enter-invoice.ts";
import { InvoiceConflictCards, InvoiceReviewCards } from "../../books/invoice-steps.tsx";
import { requireBook } from "../../books/require-book.ts";
import { ClosedMonths } from "../../books/statements/closed-months.tsx";
import { readForm } from "../../http/form.ts";
import { withUploadSlot } from "../../http/upload-slots.ts";
import { takeForm } from "../../session/saved-form.ts";
import { documentFormLimits } from "../../studio/invoices/invoice-document.ts";
import { listLinkedApps } from "../../studio/invoices/invoice-entry.ts";
import { InvoiceEntryForm } from "../../studio/invoices/invoice-entry-form.tsx";
import { blankInvoice, invoiceFields, kindNames, type TypedInvoice } from "../../studio/invoices/invoice-facts.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>((data) =>
  data?.book.isPlatform ? `Enter an invoice · ${data.book.name}` : "Enter an invoice",
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  // The platform's invoices belong to no app.
  const apps = book.isPlatform ? null : await listLinkedApps(context, member);
  const { searchParams } = new URL(request.url);
  // Values that an admin sent after the step-up expired are shown again for review.
  const savedForm = takeForm(context, { request, userId: member.userId });
  const given = invoiceFields.map((name) => [name, savedForm[name] ?? searchParams.get(name) ?? ""]);
  return { book, apps, given: Object.fromEntries(given) as TypedInvoice };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const takeStep = async (form: FormData) => {
    const entry = await enterBookInvoice(context, { book, member, form });
    if (entry.at !== "receipt") return data(entry, { status: statusOfEntry(entry) });
    throw redirect(`${book.invoices}/${entry.id}?recorded${entry.isUnattached ? "&unattached" : ""}`, 303);
  };
  // Only the review of a workspace's invoice has a file.
  if (!/^multipart\//i.test(request.headers.get("content-type") ?? ""))
    return takeStep(await readForm(request, context));
  const slot = { owner: member.userId, requestId: context.requestId, maxBytes: documentFormLimits.maxBytes };
  return withUploadSlot(request, slot, async () => takeStep(await readForm(request, context, documentFormLimits)));
}

export default function NewInvoicePage() {
  const { book, apps, given } = useLoaderData<typeof loader>();
  const entry: BookInvoiceEntry = useActionData<typeof action>() ?? { at: "form", typed: given, errors: {} };
  return (
    <StudioPage
      title={entry.at === "review" ? "Review the invoice" : "Enter an invoice"}
      lead={
        entry.at === "review"
          ? `Check the details once more, then record the ${kindNames[entry.draft.kind ?? blankInvoice.kind].toLowerCase()}.`
          : book.isPlatform
            ? "Enter an invoice or credit note that a provider issued to the platform. You can review it before it’s recorded."
            : "Enter a provider’s invoice or credit note that you’ve checked. You’ll review it once more before it’s recorded."
      }
    >
      {entry.at === "review" ? <InvoiceReviewCards entry={entry} book={book} /> : null}
      {entry.at === "conflict" ? <InvoiceConflictCards entry={entry} book={book} /> : null}
      {entry.at === "form" && entry.closedMonths ? <ClosedMonths months={entry.closedMonths} /> : null}
      {entry.at === "form" && apps?.length !== 0 ? (
        <Card title="The invoice">
          <InvoiceEntryForm apps={apps} typed={entry.typed} errors={entry.errors} cancelTo={book.invoices} />
        </Card>
      ) : null}
      {entry.at === "form" && apps?.length === 0 ? (
        <Card
          title="No app is linked to this workspace"
          lead="An invoice belongs to an app. Ask a platform administrator to register the app and link it to this workspace."
        />
      ) : null}
    </StudioPage>
  );
}
