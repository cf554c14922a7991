import { expect, test } from "vitest";
import { comparePriceFiles } from "../prices/compare-files.ts";
import { type RoutePrices, stripTrailingZeros } from "../prices/proposal.ts";
import { completeFields, createBlankModel, type Typed } from "./fields.ts";
import { fillIn } from "./look-up.ts";

const limits = { contextWindow: null, outputLimit: null, defaultOutputLimit: null };
const routes: RoutePrices[] = ["openai", "eu_openai"].map((providerId) => ({
  model: "",
  displayName: "",
  limits,
  providerId,
  providerModel: "gpt-x",
  prices: [],
}));
const liteLlm = {
  "gpt-x": {
    litellm_provider: "openai",
    input_cost_per_token: 2e-6,
    output_cost_per_token: 8e-6,
    cache_read_input_token_cost: 5e-7,
    input_cost_per_token_flex: 1e-6,
    output_cost_per_token_flex: 4e-6,
    max_output_tokens: 64_000,
    max_input_tokens: 400_000,
  },
};
const modelsDev = { openai: { id: "openai", models: { "gpt-x": { id: "gpt-x", cost: { input: 2, output: 9 } } } } };

function lookUp(typed: Typed) {
  const files = [
    { from: "models.dev", text: JSON.stringify(modelsDev) },
    { from: "raw.example", text: JSON.stringify(liteLlm) },
  ];
  const compared = comparePriceFiles({ files, routes, names: new Map([["eu_openai", "openai"]]) });
  if ("error" in compared) throw new Error(compared.error);
  return fillIn(typed, compared);
}

const typed = completeFields(
  {
    ...{ kind: "chat", contextWindow: "", outputLimit: "1000", defaultOutputLimit: "" },
    ...{ route1_providerId: "openai", route1_providerModel: "gpt-x" },
    ...{ route2_providerId: "eu_openai", route2_providerModel: "gpt-x" },
  },
  createBlankModel(),
);

test("fills in the empty amounts on which the sources agree, for each provider of the model's kind", () => {
  const { typed: filled, notes } = lookUp(typed);
  for (const id of ["openai", "eu_openai"]) {
    expect(stripTrailingZeros(filled[`price_${id}_inputUsd`] ?? "")).toBe("2");
    expect(notes[`price_${id}_inputUsd`]).toBe("From models.dev and LiteLLM.");
    expect(stripTrailingZeros(filled[`price_${id}_cachedInputUsd`] ?? "")).toBe("0.5");
    expect(notes[`price_${id}_cachedInputUsd`]).toBe("From LiteLLM.");
  }
});

test("leaves an amount empty on which the sources disagree, and shows both", () => {
  const { typed: filled, notes } = lookUp(typed);
  expect(filled.price_openai_outputUsd).toBe("");
  expect(notes.price_openai_outputUsd).toBe("models.dev: $9.00, LiteLLM: $8.00.");
});

test("never overwrites what the admin typed: a differing amount is shown next to it", () => {
  const own = { price_openai_inputUsd: "3", price_openai_cachedInputUsd: "0.50" };
  const { typed: filled, notes } = lookUp({ ...typed, ...own });
  expect(filled).toMatchObject({ ...own, outputLimit: "1000" });
  expect(notes.price_openai_inputUsd).toBe("models.dev: $2.00, LiteLLM: $2.00.");
  expect(notes).not.toHaveProperty("price_openai_cachedInputUsd");
});

test("fills in empty limits, and lists prices of other tiers", () => {
  const { typed: filled, lines } = lookUp(typed);
  expect(filled.contextWindow).toBe("400000");
  expect(lines.join(" ")).toMatch(/Filled in from the files: context window, default output limit\./);
  expect(lines.join(" ")).toContain("openai (flex tier)");
});
