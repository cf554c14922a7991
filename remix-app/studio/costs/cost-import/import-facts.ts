import { formatDay } from "../../../http/date-text.ts";
import { formatExactUsd } from "../../../ui/format-amount.ts";
import { formatExactTime } from "../../invoices/invoice-facts.ts";
import type { ImportReceipt } from "./import-answers.ts";

/** Returns the rows of an import's receipt, as pairs of label and value. */
export function receiptFacts({ provider, sha256, appName, import: file, current }: ImportReceipt): [string, string][] {
  const rates = ratesText(file.rates);
  return [
    ["File", file.file],
    ["Provider", provider],
    ...(appName === null ? [] : [["App", appName] satisfies [string, string]]),
    ["Days", daysInWords(current.firstDay, current.lastDay)],
    ["Time zone", file.timeZone],
    ...(rates ? [["Rates", rates] satisfies [string, string]] : []),
    [
      "Imported by",
      isAutomatic(file)
        ? "The system, from the provider’s API"
        : (file.name ?? (file.by === "operator" ? "The operator, from the command line" : "A deleted account")),
    ],
    ["Imported at", formatExactTime(file.importedAt)],
    ["SHA-256 of the file", sha256],
    ["Receipt ID", file.id],
  ];
}

/** Returns whether our server imported costs from a provider's API. Like the operator's imports, these name no person. */
export function isAutomatic({ by, format }: ImportReceipt["import"]): boolean {
  return by === "operator" && format.endsWith("-api");
}

/** Formats rates, such as "1 EUR = $1.08, 1 GBP = $1.27". Returns an empty text if there are none. */
export function ratesText(rates: Record<string, string>): string {
  return Object.entries(rates)
    .map(([currency, rate]) => `1 ${currency} = ${formatExactUsd(rate)}`)
    .join(", ");
}

/** Formats a span of days, such as "3 Oct 2026 to 9 Oct 2026", or a single day if both are the same. */
export function daysInWords(first: string | null, last: string | null): string {
  if (first === null || last === null) return "None";
  return first === last ? formatDay(first) : `${formatDay(first)} to ${formatDay(last)}`;
}
