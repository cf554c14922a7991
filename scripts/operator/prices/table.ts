import { limitsText } from "../../../remix-app/admin/prices/limits.ts";
import { type PriceClass, priceClasses, priceLabels } from "../../../remix-app/admin/prices/price-source.ts";
import {
  compareWithSources,
  currentUsd,
  type Proposal,
  type ProposedPrice,
  stripTrailingZeros,
} from "../../../remix-app/admin/prices/proposal.ts";

/** Formats a proposal as text, with a line for each price class and for each price that could not be compared. */
export function proposalText(proposal: Proposal, { all }: { all: boolean }): string {
  const { sources, differences, same, missing, unpriced, limits } = proposal;
  const rows = (all ? [...differences, ...same] : differences).flatMap((price) =>
    priceClasses.flatMap((name) => lineOf(price, { name, all })),
  );
  const table = [["Model", "Provider", "Tier", "Class", "Now", ...sources, ""], ...rows];
  const parts = [
    rows.length > 0 ? aligned(table) : "",
    `${differences.length} prices differ or are missing, ${same.length} agree.`,
    ...missing.map(
      ({ model, providerId, providerModel, name }) =>
        `Not in the files: ${model} through ${providerId} (looked for ${providerModel} of ${name}).`,
    ),
    ...unpriced.map(
      ({ model, providerId, source, fields }) =>
        `Not priced here: ${model} through ${providerId}, ${source}: ${fields.join(", ")}.`,
    ),
    ...limits.map((proposed) => `Limits of ${proposed.model}: ${limitsText(proposed)}.`),
    differences.length > 0 ? "Nothing was changed. Apply prices in the console, at /admin/prices." : "",
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function lineOf(price: ProposedPrice, { name, all }: { name: PriceClass; all: boolean }): string[][] {
  const comparison = compareWithSources(price, name);
  if (comparison === null || (comparison === "same" && !all)) return [];
  const { model, providerId, serviceTier, minInputTokens, current, offered } = price;
  const tier = minInputTokens === 0 ? serviceTier : `${serviceTier} from ${minInputTokens}`;
  const now = currentUsd(current, name);
  const stated = offered.map(({ [name]: offer }) => {
    if (!offer) return "-";
    return [offer.usd === null ? "" : stripTrailingZeros(offer.usd), offer.note && `(${offer.note})`]
      .filter(Boolean)
      .join(" ");
  });
  return [
    [model, providerId, tier, priceLabels[name], now === null ? "-" : stripTrailingZeros(now), ...stated, comparison],
  ];
}

function aligned(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
