import { z } from "zod";
import { utcTime } from "#shared/utc-time.ts";
import { maxReviewed } from "../../admin/prices/compare-files.ts";
import { downloadConfigured } from "../../admin/prices/download.ts";
import { UnreadablePrices } from "../../admin/prices/price-source.ts";
import { proposedPriceSchema } from "../../admin/prices/proposal.ts";
import { compareFiles } from "../../admin/prices/review-draft.ts";
import { namesFromProviders } from "../../admin/prices/source-names.ts";
import { readProviderListing } from "../../gateway/provider-setup.ts";
import { problem } from "../../http/problem.ts";
import { changeBody, defineChange, defineRead } from "../define.ts";
import { latestPrice, priceAmounts, priceScope } from "../fields.ts";

export const priceReads = {
  comparePrices: defineRead({
    summary: "Compare prices with the configured price files",
    description: `Downloads the files of PRICE_SOURCE_URLS. Returns at most ${maxReviewed} differing prices; offered has the price of each file.`,
    answer: z.object({
      sources: z.array(z.string()),
      prices: z.array(proposedPriceSchema.extend({ latest: z.string().nullable() })),
    }),
    async read({ context, caller, signal }) {
      const { env, requestId } = context;
      if (env.PRICE_SOURCE_URLS.length === 0) {
        throw problem("INVALID_REQUEST", { requestId, detail: "This server has no PRICE_SOURCE_URLS." });
      }
      const fail = (detail: string) => problem("UNAVAILABLE", { requestId, detail });
      const [files, { listing }] = await Promise.all([
        downloadConfigured(env.PRICE_SOURCE_URLS).catch((error: unknown) => {
          throw error instanceof UnreadablePrices ? fail(error.message) : error;
        }),
        readProviderListing(context, { signal }),
      ]);
      const names = namesFromProviders(listing?.providers ?? []);
      const compared = await compareFiles(context, { admin: caller, files, names });
      if ("error" in compared) throw fail(compared.error);
      return { sources: compared.findings.sources, prices: compared.prices };
    },
  }),
};

export const priceChanges = {
  addProposedPrices: defineChange({
    summary: "Add several prices",
    description: "All of them, or none. latest is the price’s latest in the comparison. Without from, they begin now.",
    body: changeBody.extend({
      from: utcTime.nullable().default(null).describe("When the prices begin. Null for now."),
      prices: z
        .array(
          z.strictObject({ model: z.string().min(1).max(128), ...priceScope, latest: latestPrice, ...priceAmounts }),
        )
        .min(1)
        .max(maxReviewed),
    }),
    example: {
      prices: [{ model: "demo-chat", providerId: "demo", latest: "7", inputUsd: "2.50", outputUsd: "10" }],
      reason: "New prices of October",
    },
    change: (_, values) => values,
  }),
};
