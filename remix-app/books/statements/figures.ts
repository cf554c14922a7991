import { addAmounts } from "#shared/decimal.ts";
import type { ProviderFigures } from "./statement.ts";

/** Returns the sum of the figures of each provider's accounts. */
export function sumByProvider(rows: readonly ProviderFigures[]): ProviderFigures[] {
  return [...Map.groupBy(rows, ({ provider }) => provider)].map(([provider, own]) => sumFigures(provider, own));
}

/** Returns the sum of figures under a name. */
export function sumFigures(provider: string, rows: readonly ProviderFigures[]): ProviderFigures {
  return {
    provider,
    meteredUsd: rows.map(({ meteredUsd }) => meteredUsd).reduce(addAmounts, "0"),
    importedUsd: rows.map(({ importedUsd }) => importedUsd).reduce(addAmounts, "0"),
    invoicedUsd: rows.map(({ invoicedUsd }) => invoicedUsd).reduce(addAmounts, "0"),
    runs: rows.reduce((sum, { runs }) => sum + runs, 0),
    importedRecords: rows.reduce((sum, { importedRecords }) => sum + importedRecords, 0),
    invoices: rows.reduce((sum, { invoices }) => sum + invoices, 0),
  };
}
