import { momentInWords } from "../../invoices/invoice-words.ts";
import type { ImportReceipt } from "./import-answers.ts";

/** Returns what the receipt of an import says, term by term. */
export function receiptFacts({ provider, sha256, appName, import: kept, current }: ImportReceipt): [string, string][] {
  const rates = Object.entries(kept.rates).map(([currency, rate]) => `1 ${currency} = ${rate} USD`);
  return [
    ["File", kept.file],
    ["Provider", provider],
    ...(appName === null ? [] : [["App", appName] satisfies [string, string]]),
    ["Days", daysInWords(current.firstDay, current.lastDay)],
    ["Time zone of days", kept.timeZone],
    ...(rates.length > 0 ? [["Rates", rates.join(", ")] satisfies [string, string]] : []),
    ["Imported by", kept.name ?? (kept.by === "operator" ? "The operator’s command" : "A deleted account")],
    ["Imported at", momentInWords(kept.importedAt)],
    ["SHA-256 of the file", sha256],
    ["Receipt", kept.id],
  ];
}

function daysInWords(first: string | null, last: string | null): string {
  if (first === null || last === null) return "none";
  return first === last ? first : `${first} to ${last}`;
}
