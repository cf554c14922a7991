import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { enterPlatformInvoice } from "../../admin/books/enter-invoice.ts";
import { InvoiceReview } from "../../admin/books/invoice-review.tsx";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { InvoiceEntryForm } from "../../studio/invoices/invoice-entry-form.tsx";
import { blankInvoice, invoiceFields, kindNames, type TypedInvoice } from "../../studio/invoices/invoice-facts.ts";
import { InvoiceConflictCards } from "../../studio/invoices/invoice-steps.tsx";
import { statusOfEntry } from "../../studio/invoices/record-invoice.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Enter an invoice · Books · Console");

const base = "/admin/books/invoices";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const { searchParams } = new URL(request.url);
  // Values that were sent after the step-up expired are shown again for review.
  const savedForm = takeForm(context, { request, userId: member.userId });
  const given = invoiceFields.map((name) => [name, savedForm[name] ?? searchParams.get(name) ?? ""]);
  return { given: Object.fromEntries(given) as TypedInvoice };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const form = await readForm(request, context);
  const entry = await enterPlatformInvoice(context, { member, form });
  if (entry.at === "receipt") throw redirect(`${base}/${entry.id}?recorded`, 303);
  return data(entry, { status: (entry.at === "review" && entry.status) || statusOfEntry(entry) });
}

const titles = { form: "Enter an invoice", review: "Review the invoice", conflict: "Enter an invoice" } as const;

export default function ConsoleNewInvoicePage() {
  const { given } = useLoaderData<typeof loader>();
  const entry = useActionData<typeof action>() ?? { at: "form" as const, typed: given, errors: {} };
  return (
    <Page
      title={titles[entry.at]}
      lead={
        entry.at === "review"
          ? `Check the details, then record the ${kindNames[entry.draft.kind ?? blankInvoice.kind].toLowerCase()}.`
          : "Enter an invoice or credit note that a provider issued to the platform. You can review it before it’s recorded."
      }
    >
      {entry.at === "review" ? <InvoiceReview entry={entry} base={base} /> : null}
      {entry.at === "conflict" ? <InvoiceConflictCards entry={entry} base={base} /> : null}
      {entry.at === "form" ? (
        <Card title="The invoice">
          <InvoiceEntryForm apps={null} typed={entry.typed} errors={entry.errors} cancelTo={base} />
        </Card>
      ) : null}
    </Page>
  );
}
