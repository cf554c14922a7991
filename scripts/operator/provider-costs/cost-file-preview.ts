import type { ImportPreview } from "../../../remix-app/studio/costs/cost-import/import-answers.ts";
import type { CostFile, ProviderCosts } from "../../../remix-app/studio/costs/files/cost-file.ts";
import { type CostImportDocument, serviceTotals } from "../../../remix-app/studio/costs/files/import-document.ts";

const maxListed = 20;

/** Describes a file's contents as lines of text. */
export function fileText(file: CostFile, costs: ProviderCosts): string {
  const services = serviceTotals(costs).map(
    ({ service, amounts }) =>
      `  ${service ?? "(no service)"}: ${amounts.map(({ amount, currency }) => `${amount} ${currency}`).join(", ")}`,
  );
  return [
    `${file.fileName}: ${file.formatName}, ${count(file.rows, "row")}.`,
    ...file.skipped.map(({ what, rows }) => `Left out: ${count(rows, "row")} (${what}).`),
    ...file.notes.map((note) => `Note: ${note}`),
    "",
    "Services of the bill",
    ...limitLines(services),
  ].join("\n");
}

/** Describes, as lines of text, what an import would change. */
export function previewText(document: CostImportDocument, preview: ImportPreview): string {
  const { byCurrency, accountCount, accounts, added, corrected, unchanged, replaced, remaining, cleared } = preview;
  return [
    `Provider ${document.provider}, ${preview.firstDay} to ${preview.lastDay}, days in ${document.timeZone}`,
    ...byCurrency.map(({ currency, amount, amountUsd }) =>
      currency === "USD"
        ? `  ${amount} USD`
        : `  ${amount} ${currency} at ${document.rates[currency]} = ${amountUsd} USD`,
    ),
    `  Total: ${preview.totalUsd} USD`,
    "",
    "Accounts",
    ...limitLines(
      accounts.map(({ accountId, days, amountUsd }) => `  ${accountId}: ${amountUsd} USD, ${count(days, "day")}`),
      accountCount,
    ),
    "",
    `New: ${count(added.days, "day")}, ${added.amountUsd} USD`,
    ...(corrected.days === 0
      ? []
      : [`Corrected: ${count(corrected.days, "day")}, from ${corrected.fromUsd} to ${corrected.toUsd} USD`]),
    ...limitLines(
      corrected.list.map((day) => `  ${day.day} ${day.accountId}: from ${day.fromUsd} to ${day.toUsd} USD`),
    ),
    ...(unchanged.days === 0 ? [] : [`Already imported: ${count(unchanged.days, "day")}`]),
    ...(remaining.days > 0
      ? [
          `Not in this file: ${count(remaining.days, "other imported day")} of this time, ${remaining.amountUsd} USD, which stay. --clear sets them to 0.`,
        ]
      : []),
    ...(cleared.days > 0
      ? [`Set to 0: ${count(cleared.days, "imported day")} that this file lacks, ${cleared.amountUsd} USD`]
      : []),
    ...(replaced.records === 0
      ? []
      : [`Replaced by a day's total: ${count(replaced.records, "record")}, ${replaced.amountUsd} USD`]),
  ].join("\n");
}

function limitLines(lines: readonly string[], total = lines.length): string[] {
  const rest = total - maxListed;
  return rest > 0 ? [...lines.slice(0, maxListed), `  and ${rest.toLocaleString("en")} more`] : [...lines];
}

function count(number: number, unit: string): string {
  return `${number.toLocaleString("en")} ${unit}${number === 1 ? "" : "s"}`;
}
