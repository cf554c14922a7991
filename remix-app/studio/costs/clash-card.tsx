import { Card } from "../../ui/card.tsx";
import type { Clash } from "./provider-import-schema.ts";

/** Records that differ only in how they spell the provider's name: which one counts, and what to do. Nothing without any. */
export function ClashCard({ clashes }: { clashes: readonly Clash[] }) {
  if (clashes.length === 0) return null;
  return (
    <Card
      title="Recorded under two spellings"
      lead="These records differ only in how they spell the provider’s name, so only one of each counts."
    >
      <ul className="list-disc space-y-2 pl-5">
        {clashes.map((clash) => {
          const { provider, spellings, accountId } = clash;
          const record = clash.kind === "invoice" ? `Invoice ${clash.reference}` : `Cost ${clash.externalRunId}`;
          return (
            <li key={`${provider} ${accountId} ${record}`} className="wrap-anywhere max-w-prose">
              <span className="font-medium">{record}</span> of {spellings.join(" and ")}
              {accountId === null ? "" : `, account ${accountId}`}.{" "}
              {clash.kind === "invoice"
                ? "The one recorded first counts. If they are two invoices, enter the other one again with its own reference."
                : "The one observed last counts. If its amount is wrong, import that day again."}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
