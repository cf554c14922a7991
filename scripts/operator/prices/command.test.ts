import { expect, test } from "vitest";
import { proposePrices } from "../../../remix-app/admin/prices/proposal.ts";
import { readPricesCommand, usage } from "./command.ts";
import { proposalText } from "./table.ts";

test("parses the price files and provider names of the propose command", () => {
  expect(readPricesCommand(["propose", "--from", "a.json"])).toEqual({
    from: ["a.json"],
    names: new Map(),
    all: false,
  });
  const two = ["propose", "--from", "a.json", "--from", "https://example.com/b.json"];
  expect(readPricesCommand([...two, "--provider", "eu=openai", "--provider", "own=groq", "--all"])).toEqual({
    from: ["a.json", "https://example.com/b.json"],
    names: new Map([
      ["eu", "openai"],
      ["own", "groq"],
    ]),
    all: true,
  });
});

test.each<[string[], string]>([
  [[], "use propose"],
  [["apply", "--from", "a.json"], "use propose"],
  [["propose"], "one or two price files"],
  [["propose", "--from", "a", "--from", "b", "--from", "c"], "one or two price files"],
  [["propose", "--from", "a", "--provider", "openai"], "<id>=<name>"],
  [["propose", "--from", "a", "--apply"], "--apply"],
])("refuses %j and shows the usage text", (argv, message) => {
  expect(() => readPricesCommand(argv)).toThrow(message);
  expect(() => readPricesCommand(argv)).toThrow(usage);
});

test("prints a line for each price difference, with both sources side by side", () => {
  const amounts = {
    inputUsd: "1.000000",
    cachedInputUsd: null,
    cacheWriteUsd: null,
    cacheWrite1hUsd: null,
    outputUsd: "2.000000",
    audioInputUsd: null,
    audioOutputUsd: null,
    imageInputUsd: null,
    requestFeeUsd: null,
  };
  const price = {
    ...amounts,
    serviceTier: "default",
    minInputTokens: 0,
    latest: "1",
    current: true,
    from: null,
    until: null,
  };
  const limits = { contextWindow: null, outputLimit: null, defaultOutputLimit: null };
  const route = { model: "m", displayName: "M", limits, providerId: "openai", providerModel: "x", prices: [price] };
  const model = (inputUsd: object) => ({
    provider: "openai",
    model: "x",
    unpriced: ["output_cost_per_second"],
    limits: { outputLimit: 64_000 },
    tiers: [{ serviceTier: "default", aboveTokens: 0, offers: { inputUsd, outputUsd: { usd: "2" } } as object }],
  });
  const proposal = proposePrices([route, { ...route, model: "n", providerId: "own" }], {
    sources: [
      { name: "models.dev", models: [model({ usd: "1.5" })] },
      { name: "LiteLLM", models: [model({ usd: null, note: "marked" })] },
    ],
    names: new Map(),
  });
  expect(proposalText(proposal, { all: false }).split("\n")).toEqual([
    "Model  Provider  Tier     Class  Now  models.dev  LiteLLM",
    "m      openai    default  Input  1    1.5         (marked)  different",
    "1 prices differ or are missing, 0 agree.",
    "Not in the files: n through own (looked for x of own).",
    "Not priced here: m through openai, models.dev: output_cost_per_second.",
    "Not priced here: m through openai, LiteLLM: output_cost_per_second.",
    "Limits of m: output limit 64,000, default output limit 32,768.",
    "Nothing was changed. Apply prices in the console, at /admin/prices.",
  ]);
  expect(proposalText(proposal, { all: true })).toMatch(/m +openai +default +Output +2 +2 +2 +same/);
});
