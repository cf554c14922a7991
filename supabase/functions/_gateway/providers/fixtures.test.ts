import {
  fixtureFolder,
  fixturePrices,
  type ProviderFixture,
  readProviderFixtures,
} from "@gatehousehq/local-stack/services/provider/fixtures";
import { describe, expect, test } from "vitest";
import { formatDecimal } from "../../_shared/decimal.ts";
import { usageCostUsd } from "../../_shared/money.ts";
import type { StreamReader } from "../answers/stream-reader.ts";
import { createChatReader } from "../chat/events.ts";
import { chatFormat } from "../chat/surface.ts";
import { createMessagesReader } from "../messages/events.ts";
import { messagesFormat } from "../messages/surface.ts";
import { createResponsesReader } from "../responses/events.ts";
import { responsesFormat } from "../responses/surface.ts";
import { parseAnswer, readEmbeddingUsage, readGeminiUsage } from "../usage/read-usage.ts";
import type { StatedUsage } from "../usage/usage.ts";

const fixtures = readProviderFixtures();
const usageLimits = { contextWindow: 1_000_000, outputLimit: 100_000, choices: 1 };

function statedBy({ surface, events, text }: ProviderFixture): StatedUsage | undefined {
  if (events) {
    const reader = readerOf(surface);
    reader.push(new TextEncoder().encode(text));
    reader.end();
    const { usage, servedTier } = reader.facts;
    return usage && servedTier !== undefined ? { ...usage, servedTier } : usage;
  }
  const answer = parseAnswer(text) as Record<string, unknown>;
  if (surface === "embeddings") return readEmbeddingUsage(answer.usage, usageLimits);
  if (surface === "gemini") return readGeminiUsage(answer.usageMetadata, usageLimits)?.usage;
  if (surface === "messages") return messagesFormat.readAnswer(answer, usageLimits)?.usage;
  return (surface === "responses" ? responsesFormat : chatFormat).readAnswer(answer, usageLimits)?.usage;
}

function readerOf(surface: ProviderFixture["surface"]): StreamReader {
  if (surface === "responses") return createResponsesReader({ usageLimits });
  if (surface === "messages") return createMessagesReader({ usageLimits });
  return createChatReader({ wantsUsage: true, usageLimits, unnamed: { id: "run", model: "m" } });
}

const stating = fixtures.filter(({ states }) => states !== null);

describe("Reads the usage stated by fixtures", () => {
  test.for(stating)("reads the usage stated by $name", (fixture) => {
    const { counts, stated_cost_usd, served_tier } = fixture.states ?? {};
    const usage = statedBy(fixture);
    const { audio_output_tokens, ...read } = usage?.counts ?? { audio_output_tokens: 0 };
    // All of Gemini's speech output is audio unless its usage says otherwise.
    expect(fixture.surface === "gemini" ? read : usage?.counts).toEqual(counts);
    expect([usage?.statedCostUsd, usage?.servedTier]).toEqual([stated_cost_usd, served_tier]);
    expect(usage?.marks).toBeUndefined();
  });
});

describe("the cost of the usage stated by fixtures", () => {
  test.for(stating)("computes the cost of the usage stated by $name", (fixture) => {
    const counts = statedBy(fixture)?.counts ?? {};
    expect(formatDecimal(usageCostUsd({ prices: [{ min_input_tokens: 0, ...fixturePrices }] }, counts))).toBe(
      fixture.states?.usd,
    );
  });
});

test.for(fixtures.filter(({ states }) => states === null))("finds no usage in $name", (fixture) => {
  expect(statedBy(fixture)).toBeUndefined();
});

const cells = ["plain", "stream", "tools", "cache", "reasoning", "audio", "error"];

function table(): string {
  const kinds = [...new Set(fixtures.map(({ kind }) => kind))].sort();
  const link = ({ name, ...fixture }: ProviderFixture) => `[${fixture.case}](${name}.json)`;
  const rows = kinds.map((kind) => {
    const own = fixtures.filter((fixture) => fixture.kind === kind);
    const found = cells.map((cell) => own.find((fixture) => fixture.case === cell));
    const others = own.filter((fixture) => !cells.includes(fixture.case)).sort((a, b) => (a.case < b.case ? -1 : 1));
    return `| ${kind} | ${found.map((each) => (each ? link(each) : "–")).join(" | ")} | ${others.map(link).join(", ") || "–"} |`;
  });
  return `# Provider fixtures

Answers in the format of each kind of provider, written from the documentation, SDK types, public reports and recordings in
each \`source\`. \`states\` has the expected token counts, the cost in USD at the prices in
\`packages/local-stack/services/provider/fixtures.ts\`, the provider's own price, and the served tier. The demo provider returns them
for the model \`fixture/<kind>/<case>\`.

A dash means that the provider doesn't offer the case, or documents nothing specific for it.

| kind | ${cells.join(" | ")} | other |
|---|${"---|".repeat(cells.length + 1)}
${rows.join("\n")}
`;
}

test("the fixtures' README lists every fixture", async () => {
  await expect(table()).toMatchFileSnapshot(new URL("README.md", fixtureFolder).pathname);
});
