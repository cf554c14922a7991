import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import { priceItems, type TokenCounts } from "#shared/money.ts";
import { formatCount, formatExactUsd } from "../../ui/format-amount.ts";
import { pricingOf } from "./pricing.ts";
import { pricingNotes } from "./pricing-schema.ts";
import { creditsFormula, itemWords, unitPriceWords } from "./pricing-words.ts";
import { pricedRun } from "./run-fixtures.ts";

const document = readFileSync("docs/pricing.md", "utf8");
const prices = z.object({ input: z.string(), output: z.string() }).catchall(z.string());
const usage = z.record(z.string(), z.number());

test("the worked example in docs/pricing.md matches the computed price", () => {
  const [priceList, counts] = [...document.matchAll(/```json\n(.*)\n```/g)].map(([, json = ""]) => JSON.parse(json));
  const run = pricedRun({
    routes: [
      {
        position: 1,
        provider: "demo",
        model: "upstream",
        prices: [{ min_input_tokens: 0, ...prices.parse(priceList) }],
        tier_multipliers: { priority: 1.75 },
      },
    ],
    calls: [{ route: 1, usage: usage.parse(counts) as TokenCounts, servedTier: "priority" }],
    markup: "1.2",
  });
  const pricing = pricingOf(run);
  const rows = pricing.lines.map((line) => {
    const amount = formatExactUsd(line.amountUsd ?? "");
    return `| ${itemWords[line.item]} | ${formatCount(line.count ?? 0)} | ${unitPriceWords(line)} | ${amount} |`;
  });
  expect(document).toContain(`|---|---|---|---|\n${rows.join("\n")}\n\nCredits: ${creditsFormula(pricing)}\n`);
});

test("docs/pricing.md names every pricing line and every pricing note", () => {
  for (const name of [...priceItems, ...pricingNotes]) expect(document).toContain(`\`${name}\``);
});
