import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { requireInvoice } from "../../studio/invoices/invoice-entry.ts";
import { followUpPath, kindNames } from "../../studio/invoices/invoice-facts.ts";
import { InvoiceReceiptCards } from "../../studio/invoices/invoice-receipt.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { buttonClass } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `${data?.invoice.reference ?? "Invoice"} · Invoices`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const found = await requireInvoice(context, { member, invoiceId: params.invoiceId });
  return { workspace, ...found };
}

export default function InvoicePage() {
  const { workspace, invoice, recorded, comparison } = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const base = `/workspaces/${workspace.id}/ai/invoices`;
  return (
    <StudioPage
      title={`${kindNames[invoice.kind]} ${invoice.reference}`}
      lead="A recorded invoice or credit note can’t be changed or deleted. To correct it, enter a correction that replaces it."
      actions={
        <>
          <a className={buttonClass("secondary")} href={base}>
            All invoices
          </a>
          {invoice.replacedBy ? null : (
            <a className={buttonClass("secondary")} href={followUpPath(base, { invoice, as: "correction" })}>
              Enter correction
            </a>
          )}
          {invoice.replacedBy || invoice.kind === "credit_note" ? null : (
            <a className={buttonClass("secondary")} href={followUpPath(base, { invoice, as: "credit_note" })}>
              Enter credit note
            </a>
          )}
        </>
      }
    >
      {invoice.replacedBy ? (
        <Notice tone="warn">
          {invoice.replacedBy} replaces it, so it’s no longer counted. It’s kept as it was recorded.
        </Notice>
      ) : null}
      {searchParams.has("recorded") ? (
        <Notice tone="good">{kindNames[invoice.kind]} recorded. This is its receipt.</Notice>
      ) : null}
      <InvoiceReceiptCards
        invoice={invoice}
        recorded={recorded}
        comparison={comparison}
        comparedWith="what was metered and imported"
      />
    </StudioPage>
  );
}
