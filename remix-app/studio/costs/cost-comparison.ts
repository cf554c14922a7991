import type { AppLoadContext } from "@remix-run/node";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import type { WindowQuery } from "../range.ts";
import { readStudio, type StudioReader } from "../studio-reader.ts";
import { percentOf, subtractAmounts } from "./difference.ts";
import { listedComparison } from "./provider-import-schema.ts";

/** A metered and an imported cost, as exact strings. The metered cost is null if the workspace hides provider costs. */
interface Amounts {
  meteredUsd: string | null;
  importedUsd: string;
}

/** The amounts and their difference, which is imported minus metered. */
export type ComparedCosts = Amounts & { differenceUsd: string | null; differencePercent: string | null };

/**
 * Compares the metered and imported costs in a range. Returns a page of providers, ordered by name, and the total of
 * all providers. Omits providers without data. The total is null without providers.
 * @throws Response 400, 403, 503 like {@link readStudio}
 */
export async function compareCosts(
  context: AppLoadContext,
  {
    reader,
    query: { from, to, limit, cursor },
    provider,
  }: { reader: StudioReader; query: WindowQuery; provider: string | undefined },
) {
  const read = (text: string) => readKeyCursor(text, { length: 1 });
  const { totals, records: found } = await readStudio(context, {
    reader,
    name: "compare_costs",
    args: {
      given_from: from ?? null,
      given_to: to ?? null,
      of_provider: provider ?? null,
      after: parseCursor(cursor, { read, requestId: context.requestId })?.[0] ?? null,
      page_size: limit + 1,
    },
    schema: listedComparison,
  });
  const { records, nextCursor } = buildPage(found, { limit, cursorOf: (last) => writeKeyCursor([last.provider]) });
  return {
    overall: totals.providers === 0 ? null : withDifference(totals, { isCompared: totals.importedRecords > 0 }),
    providers: records.map(({ provider: name, importedRecords, ...amounts }) => ({
      provider: name,
      importedRecords,
      ...withDifference(amounts, { isCompared: importedRecords > 0 }),
    })),
    nextCursor,
  };
}

/** Adds the exact difference, which is null if the metered amount is hidden or nothing was imported. */
export function withDifference({ meteredUsd, importedUsd }: Amounts, { isCompared = true } = {}): ComparedCosts {
  if (meteredUsd === null || !isCompared) {
    return { meteredUsd, importedUsd, differenceUsd: null, differencePercent: null };
  }
  const differenceUsd = subtractAmounts(importedUsd, meteredUsd);
  return { meteredUsd, importedUsd, differenceUsd, differencePercent: percentOf(differenceUsd, meteredUsd) };
}
