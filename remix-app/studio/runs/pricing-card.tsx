import { formatExactDateTime } from "../../http/date-text.ts";
import { Card } from "../../ui/card.tsx";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { FactList } from "../../ui/facts.tsx";
import { formatCount, formatExactCredits, formatExactUsd } from "../../ui/format-amount.ts";
import { isCostUnknown } from "./pricing.ts";
import type { PricingLine } from "./pricing-schema.ts";
import { creditsFormula, itemWords, priceListWords, pricingNoteWords, unitPriceWords } from "./pricing-words.ts";
import type { RunDetail } from "./runs.ts";

type Line = PricingLine & { key: string };

/**
 * Shows how a run was priced: each class of tokens, the provider's cost, the credits, and why requests were not billed.
 */
export function PricingCard({ detail: { run, pricing, ledger } }: { detail: RunDetail }) {
  const { calls, costUsd, markup, billedCredits, unmeteredCredits, reservedCredits } = pricing;
  const lines = pricing.lines.map((line, index) => ({ ...line, key: String(index) }));
  const notes = pricingNoteWords(pricing, run);
  const isUnknown = isCostUnknown(run);
  const facts: (readonly [string, string | null])[] = [
    ["Provider cost", costUsd && (isUnknown ? "Unknown" : formatExactUsd(costUsd))],
    ["Markup", markup && `×${markup}`],
    ["Credits", isUnknown ? null : creditsFormula(pricing)],
    ["Billed credits", billedCredits && formatExactCredits(billedCredits)],
    ["Credits not billed", Number(unmeteredCredits) > 0 ? formatExactCredits(unmeteredCredits) : null],
    ["Reserved credits", reservedCredits && formatExactCredits(reservedCredits)],
    ...ledger.map(
      ({ kind, credits, createdAt }) =>
        [
          `Ledger: ${kind}`,
          `${formatExactCredits(credits)} credits charged, ${formatExactDateTime(createdAt)}`,
        ] as const,
    ),
  ];
  return (
    <Card
      title="How this was priced"
      lead="Based on the prices when the run started. 1 credit is $0.0001 before markup."
    >
      <div className="space-y-4">
        {calls && calls.length > 0 ? (
          <ul className="space-y-1 text-muted">
            {calls.map((call) => (
              <li key={call.call} className="wrap-anywhere">
                {calls.length > 1 ? `Call ${call.call}: ` : ""}
                {priceListWords(call)}
              </li>
            ))}
          </ul>
        ) : null}
        <DataTable
          caption="Cost by item"
          rows={lines}
          rowKey={({ key }) => key}
          empty="No tokens were counted."
          columns={costUsd === null ? [itemColumn, countColumn] : [itemColumn, countColumn, priceColumn, amountColumn]}
        />
        <FactList facts={facts.flatMap(([term, text]) => (text === null ? [] : [[term, text] as const]))} />
        {notes.length > 0 ? (
          <ul className="max-w-prose space-y-1">
            {notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        ) : null}
      </div>
    </Card>
  );
}

const itemColumn: DataColumn<Line> = {
  label: "Item",
  cell: ({ call, item }) => (call === null ? itemWords[item] : `Call ${call}: ${itemWords[item]}`),
};
const countColumn: DataColumn<Line> = {
  label: "Quantity",
  numeric: true,
  cell: ({ count }) => (count === null ? "–" : formatCount(count)),
};
const priceColumn: DataColumn<Line> = { label: "Unit price", numeric: true, cell: unitPriceWords };
const amountColumn: DataColumn<Line> = {
  label: "Amount",
  numeric: true,
  small: "aside",
  cell: ({ amountUsd }) => (amountUsd === null ? "–" : formatExactUsd(amountUsd)),
};
