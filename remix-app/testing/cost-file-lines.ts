import type { CostFile } from "../studio/costs/files/cost-file.ts";
import { readCostFile } from "../studio/costs/files/read-cost-file.ts";

/** Reads a cost file that consists of the given lines, with a line break at the end. */
export function readCostText(lines: readonly string[], fileName = "costs.csv"): Promise<CostFile> {
  return readCostFile(new TextEncoder().encode(`${lines.join("\n")}\n`), { fileName });
}

/** Returns a file's contents, one string per provider, day, account, service and currency. */
export function costLines({ providers }: CostFile): string[] {
  return providers.flatMap(({ provider, days }) =>
    days.flatMap(({ day, accountId, amounts }) =>
      amounts.map(
        ({ service, amount, currency }) => `${provider} ${day} ${accountId}: ${amount} ${currency}, ${service}`,
      ),
    ),
  );
}
