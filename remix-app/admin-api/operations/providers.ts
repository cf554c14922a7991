import { z } from "zod";
import { providersPage, readProviders } from "../../admin/providers.ts";
import { pageQuery } from "../../http/list-page.ts";
import { readRange, requireValidRange } from "../../studio/range.ts";
import { changeBody, defineChange, defineRead, version, versionExample } from "../define.ts";
import { maxInteger, optionalCount } from "../fields.ts";

const maxTokens = 100_000_000_000;

export const providerReads = {
  getProviders: defineRead({
    summary: "Get the state, limits and usage of providers",
    description:
      "models is a page of the enabled models with their routes. usage covers the given days, by default the last 30.",
    query: pageQuery.pick({ cursor: true }).extend({
      from: z.string().optional().describe("The first day of usage, in UTC."),
      to: z.string().optional().describe("The last day of usage, in UTC."),
    }),
    answer: providersPage.extend({ nextCursor: z.string().nullable() }),
    read({ context, url }, { cursor = null }) {
      const range = requireValidRange(readRange(url, { now: new Date() }), context);
      return readProviders(context, { cursor, range });
    },
  }),
};

export const providerChanges = {
  changeProviderLimit: defineChange({
    summary: "Set or remove a provider’s limits",
    description: "Sets both limits; null removes one. Refused if they have changed since their version.",
    body: changeBody.extend({
      version,
      requestsPerMinute: optionalCount(maxInteger),
      tokensPerMinute: optionalCount(maxTokens),
    }),
    example: {
      version: versionExample,
      requestsPerMinute: 500,
      tokensPerMinute: null,
      reason: "New contract",
    },
    change: ({ param }, { version: seen, ...limits }) => ({ ...limits, provider: param("providerId"), seen }),
  }),
};
