import { Card } from "../../ui/card.tsx";
import type { Clash } from "./provider-import-schema.ts";

/**
 * Warns about cost records that differ only in the spelling of the provider's name. Shows which record counts and what
 * to do. Renders nothing without such records.
 */
export function ClashCard({ clashes }: { clashes: readonly Clash[] }) {
  if (clashes.length === 0) return null;
  return (
    <Card
      title="Recorded under two spellings"
      lead="The same record was entered under two spellings of the provider’s name. Only one is counted."
    >
      <ul className="list-disc space-y-2 pl-5">
        {clashes.map((clash) => {
          const { provider, spellings, accountId } = clash;
          const record = clash.kind === "invoice" ? `Invoice ${clash.reference}` : `Cost ${clash.externalRunId}`;
          return (
            <li key={`${provider} ${accountId} ${record}`} className="wrap-anywhere max-w-prose">
              <span className="font-medium">{record}</span>: recorded for {formatSpellings(spellings)}
              {accountId === null ? "" : ` (account ${accountId})`}.{" "}
              {clash.kind === "invoice"
                ? "We count the one recorded first. If these are two different invoices, enter the second again with its own reference."
                : "We count the most recent one. If that amount is wrong, import the day again."}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** Formats the spellings for display: both “OpenAI” and “openai”. */
function formatSpellings(spellings: readonly string[]): string {
  const quoted = spellings.map((spelling) => `“${spelling}”`);
  return quoted.length === 2 ? `both ${quoted.join(" and ")}` : quoted.join(", ");
}
