import { Card } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import { InvoiceComparison } from "./invoice-comparison.tsx";
import type { InvoiceComparison as Comparison, InvoiceRecorder } from "./invoice-entry.ts";
import { invoiceFacts, kindNames, recorderText, secondText } from "./invoice-facts.ts";

/** Shows a recorded invoice, who recorded it, and how it compares with the other costs of its period. */
export function InvoiceReceiptCards({
  invoice,
  recorded,
  comparison,
  comparedWith,
}: {
  invoice: InvoiceRecord;
  recorded: InvoiceRecorder | null;
  comparison: Comparison | null;
  /** Names the costs of the comparison, such as “what was metered and imported”. */
  comparedWith: string;
}) {
  return (
    <>
      <Card title="What was recorded">
        <Facts
          facts={[
            ...invoiceFacts(invoice),
            ["Recorded by", recorderText(recorded)],
            ["Recorded at", secondText(invoice.recordedAt)],
            ["Receipt ID", invoice.id],
          ]}
        />
      </Card>
      <Card
        title="How it compares"
        lead={`This ${kindNames[invoice.kind].toLowerCase()} against ${comparedWith} for its period, as of today.`}
      >
        <InvoiceComparison invoice={invoice} comparison={comparison} />
      </Card>
    </>
  );
}
