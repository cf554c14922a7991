import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { requirePlatformInvoice } from "../../admin/books/platform-invoices.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { InvoiceComparison } from "../../studio/invoices/invoice-comparison.tsx";
import { followUpPath, invoiceFacts, kindNames, momentInWords } from "../../studio/invoices/invoice-words.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.invoice.reference ?? "Invoice"} · Books · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  return await requirePlatformInvoice(context, params.invoiceId);
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
      <Card title="What was recorded">
        <Facts
          facts={[
            ...invoiceFacts(invoice),
            ["Recorded by", recorded?.name ?? "A deleted account"],
            ["Recorded at", momentInWords(invoice.recordedAt)],
            ["Receipt ID", invoice.id],
          ]}
        />
      </Card>
      <Card
        title="How it compares"
        lead={`This ${kindNames[invoice.kind].toLowerCase()} against what all workspaces’ runs cost and what was imported for its period, as of today.`}
      >
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
    </Page>
  );
}
