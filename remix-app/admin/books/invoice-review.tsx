import { InvoiceComparison, OtherInvoicesNotice } from "../../studio/invoices/invoice-comparison.tsx";
import { blankInvoice, invoiceFacts, kindNames } from "../../studio/invoices/invoice-facts.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import { ChangeForm } from "../change-form.tsx";
import type { PlatformInvoiceEntry } from "./enter-invoice.ts";

/** Shows the invoice to be recorded, how it compares with the books, and the form to confirm it. */
export function InvoiceReview({
  entry: { typed, draft, review, failed },
  base,
}: {
  entry: Extract<PlatformInvoiceEntry, { at: "review" }>;
  /** Base path of the invoice pages. */
  base: string;
}) {
  const { reviewedAt, comparison } = review;
  const invoice = { ...blankInvoice, ...draft, appName: null, reviewedAt };
  const kind = kindNames[invoice.kind].toLowerCase();
  return (
    <>
      <OtherInvoicesNotice kind={invoice.kind} comparison={comparison} />
      <Card
        title="How it compares"
        lead={`This ${kind} against what all workspaces’ runs cost and what was imported for its period.`}
      >
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
      <Card title="What will be recorded">
        <Facts facts={invoiceFacts(invoice)} />
      </Card>
      <Panel>
        <ChangeForm
          effects={[
            `The ${kind} is added to the platform’s books. It can’t be changed or deleted afterward.`,
            ...(invoice.kind === "credit_note" ? ["Its amount is subtracted."] : []),
            ...(invoice.replaces === null ? [] : [`${invoice.replaces} will no longer be counted.`]),
            "No workspace is charged, and no workspace’s own costs or invoices change.",
          ]}
          confirm={{ text: draft.reference, what: `the ${kind}’s reference` }}
          failed={failed}
          submit={`Record ${kind}`}
          cancelTo={base}
          hidden={{ ...typed, reviewedAt }}
          edit="Edit"
        />
      </Panel>
    </>
  );
}
