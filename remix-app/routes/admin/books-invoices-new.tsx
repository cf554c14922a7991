import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { InvoiceReview } from "../../admin/books/invoice-review.tsx";
import { enterPlatformInvoice } from "../../admin/books/platform-invoices.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { InvoiceEntryForm } from "../../studio/invoices/invoice-entry-form.tsx";
import { InvoiceConflictCards } from "../../studio/invoices/invoice-steps.tsx";
import { blankInvoice, invoiceFields, kindNames, type TypedInvoice } from "../../studio/invoices/invoice-words.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Enter an invoice · Books · Console");

const base = "/admin/books/invoices";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  // Values that were sent after the step-up expired are shown again for review.
  const kept = takeForm(context, { request, userId: admin.id });
  const given = invoiceFields.map((name) => [name, kept[name] ?? searchParams.get(name) ?? ""]);
  return { given: Object.fromEntries(given) as TypedInvoice };
}

const statusOf = { form: 400, review: 200, conflict: 409 } as const;

export async function action({ request, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const form = await readForm(request, context);
  const entry = await enterPlatformInvoice(context, { admin, form });
  if (entry.at === "receipt") throw redirect(`${base}/${entry.id}?recorded`, 303);
  const edited = entry.at === "form" && Object.keys(entry.errors).length === 0;
  const status = edited ? 200 : entry.at === "review" && entry.status ? entry.status : statusOf[entry.at];
  return data(entry, { status });
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
