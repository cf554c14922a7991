import { UnreadablePrices } from "./price-source.ts";
import { type Proposal, type ProposedPrice, proposePrices, type RoutePrices } from "./proposal.ts";
import { type PriceFile, readPriceSources } from "./read-source.ts";

/** Maximum number of price rows on one page. A comparison after these rows are applied shows the remaining rows. */
export const maxReviewed = 200;

export type ComparedPrices = {
  prices: ProposedPrice[];
  findings: Omit<Proposal, "differences" | "same"> & { differences: number; same: number };
};

/**
 * Reads price files and compares the prices of all routes with them. Runs in a worker, because large files take
 * seconds.
 * @param input.names maps a provider's id to its name in the files
 * @returns the differences to review and the findings, or why a file cannot be read
 */
export function comparePriceFiles({
  files,
  routes,
  names,
}: {
  files: readonly PriceFile[];
  routes: readonly RoutePrices[];
  names: ReadonlyMap<string, string>;
}): ComparedPrices | { error: string } {
  try {
    const sources = readPriceSources(files, routes);
    const { differences, same, ...rest } = proposePrices(routes, { sources, names });
    const findings = { ...rest, differences: differences.length, same: same.length };
    return { prices: differences.slice(0, maxReviewed), findings };
  } catch (error) {
    if (error instanceof UnreadablePrices) return { error: error.message };
    throw error;
  }
}
