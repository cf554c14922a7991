import type { AppLoadContext } from "@remix-run/server-runtime";
import { pageOf, positionOf, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import type { WindowQuery } from "../range.ts";
import { type MemberReader, readStudio } from "../studio-reader.ts";
import { percentOf, subtractAmounts } from "./difference.ts";
import { listedComparison } from "./provider-import-schema.ts";

/** What was metered, null where the workspace hides what providers charge, and what was imported; exact texts. */
interface Amounts {
  meteredUsd: string | null;
  importedUsd: string;
}

/** The same with how they differ: imported less metered. */
export type ComparedCosts = Amounts & { differenceUsd: string | null; differencePercent: string | null };

/**
 * What was metered and imported in a range, of a page of its providers by name, and of all of them together: null where
 * there are none. Those of which nothing is known are left out.
 * @throws Response 400, 403, 503 as {@link readStudio}
 */
export async function compareCosts(
  context: AppLoadContext,
  {
    reader,
    query: { from, to, limit, cursor },
    provider,
  }: { reader: MemberReader; query: WindowQuery; provider: string | undefined },
) {
  const read = (text: string) => readKeyCursor(text, { length: 1 });
  const { totals, records: found } = await readStudio(context, {
    reader,
    name: "compare_costs",
    args: {
      given_from: from ?? null,
      given_to: to ?? null,
      of_provider: provider ?? null,
      after: positionOf(cursor, { read, requestId: context.requestId })?.[0] ?? null,
      page_size: limit + 1,
    },
    schema: listedComparison,
  });
  const { records, nextCursor } = pageOf(found, { limit, cursorOf: (last) => writeKeyCursor([last.provider]) });
  return {
    overall: totals.providers === 0 ? null : withDifference(totals),
    providers: records.map((record) => ({ provider: record.provider, ...withDifference(record) })),
    nextCursor,
  };
}

/** Amounts with how they differ, to the last digit; what is hidden has nothing to differ from. */
export function withDifference({ meteredUsd, importedUsd }: Amounts): ComparedCosts {
  if (meteredUsd === null) return { meteredUsd, importedUsd, differenceUsd: null, differencePercent: null };
  const differenceUsd = subtractAmounts(importedUsd, meteredUsd);
  return { meteredUsd, importedUsd, differenceUsd, differencePercent: percentOf(differenceUsd, meteredUsd) };
}
