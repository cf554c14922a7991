import { percentOf, subtractAmounts, sumAmounts } from "./difference.ts";
import type { ReconciledMonth } from "./provider-import-schema.ts";

/** What was metered of a provider, and what was imported of it; exact texts. */
export interface ComparedProvider {
  provider: string;
  /** Null where the workspace hides what providers charge. */
  meteredUsd: string | null;
  importedUsd: string;
  differenceUsd: string | null;
  differencePercent: string | null;
}

/** Adds months up by provider, in the providers' order of names. Those of which nothing is known are left out. */
export function compareProviders(months: readonly ReconciledMonth[]): ComparedProvider[] {
  const providers = [...new Set(months.map(({ provider }) => provider))].sort();
  return providers.flatMap((provider) => {
    const own = months.filter((month) => month.provider === provider);
    if (own.every(({ meteredUsd, importedRecords }) => importedRecords === 0 && Number(meteredUsd) === 0)) return [];
    const metered = own.flatMap(({ meteredUsd }) => (meteredUsd === null ? [] : [meteredUsd]));
    const meteredUsd = metered.length === own.length ? sumAmounts(metered) : null;
    return [{ provider, ...compareAmounts({ meteredUsd, importedUsd: sumAmounts(own.map((m) => m.importedUsd)) }) }];
  });
}

/** All of them together; null where there are none. */
export function compareAll(providers: readonly ComparedProvider[]): Omit<ComparedProvider, "provider"> | null {
  if (providers.length === 0) return null;
  const metered = providers.flatMap(({ meteredUsd }) => (meteredUsd === null ? [] : [meteredUsd]));
  return compareAmounts({
    meteredUsd: metered.length === providers.length ? sumAmounts(metered) : null,
    importedUsd: sumAmounts(providers.map(({ importedUsd }) => importedUsd)),
  });
}

function compareAmounts(amounts: {
  meteredUsd: string | null;
  importedUsd: string;
}): Omit<ComparedProvider, "provider"> {
  const { meteredUsd, importedUsd } = amounts;
  if (meteredUsd === null) return { ...amounts, differenceUsd: null, differencePercent: null };
  const differenceUsd = subtractAmounts(importedUsd, meteredUsd);
  return { ...amounts, differenceUsd, differencePercent: percentOf(differenceUsd, meteredUsd) };
}
