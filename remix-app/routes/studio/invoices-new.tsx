import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { listLinkedApps } from "../../studio/invoices/invoice-entry.ts";
import { InvoiceEntryForm } from "../../studio/invoices/invoice-entry-form.tsx";
import { blankInvoice, type InvoiceField, invoiceFields, kindNames } from "../../studio/invoices/invoice-facts.ts";
import { InvoiceConflictCards, InvoiceReviewCards } from "../../studio/invoices/invoice-steps.tsx";
import { enterInvoice, statusOfEntry } from "../../studio/invoices/record-invoice.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle("Enter an invoice");

const permission = "use_ai_studio";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const apps = await listLinkedApps(context, member);
  const { searchParams } = new URL(request.url);
  const given = Object.fromEntries(invoiceFields.map((name) => [name, searchParams.get(name) ?? ""]));
  return { workspace, apps, given: given as Record<InvoiceField, string> };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context);
  const entry = await enterInvoice(context, { member, form });
  if (entry.at === "receipt") throw redirect(`/workspaces/${workspace.id}/ai/invoices/${entry.id}?recorded`, 303);
  return data(entry, { status: statusOfEntry(entry) });
}

const titles = { form: "Enter an invoice", review: "Review the invoice", conflict: "Enter an invoice" } as const;

export default function NewInvoicePage() {
  const { workspace, apps, given } = useLoaderData<typeof loader>();
  const entry = useActionData<typeof action>() ?? { at: "form" as const, typed: given, errors: {} };
  const base = `/workspaces/${workspace.id}/ai/invoices`;
  return (
    <StudioPage
      title={titles[entry.at]}
      lead={
        entry.at === "review"
          ? `Check the details once more, then record the ${kindNames[entry.draft.kind ?? blankInvoice.kind].toLowerCase()}.`
          : "Enter a provider’s invoice or credit note that you’ve checked. You’ll review it once more before it’s recorded."
      }
    >
      {entry.at === "review" ? <InvoiceReviewCards entry={entry} /> : null}
      {entry.at === "conflict" ? <InvoiceConflictCards entry={entry} base={base} /> : null}
      {entry.at === "form" && apps.length > 0 ? (
        <Card title="The invoice">
          <InvoiceEntryForm apps={apps} typed={entry.typed} errors={entry.errors} cancelTo={base} />
        </Card>
      ) : null}
      {entry.at === "form" && apps.length === 0 ? (
        <Card
          title="No app is linked to this workspace"
          lead="An invoice belongs to an app. Ask a platform administrator to register the app and link it to this workspace."
        />
      ) : null}
    </StudioPage>
  );
}
