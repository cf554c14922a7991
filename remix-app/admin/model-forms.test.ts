import { describe, expect, test } from "vitest";
import { grantFields, modelFields, modelIdFields, priceFields, routeFields } from "./model-forms.ts";

const model = {
  version: "",
  defaultOfKind: "",
  kind: "chat",
  displayName: "GPT-4.1 mini",
  ownedBy: "openai",
  contextWindow: "",
  outputLimit: "",
  defaultOutputLimit: "",
  voices: "",
};
const route = {
  providerId: "openai",
  providerModel: "gpt-4.1-mini",
  tierMultipliers: "",
  firstByteSeconds: "",
  idleSeconds: "",
  totalSeconds: "",
};
const price = {
  latest: "",
  seen: "0",
  from: "",
  serviceTier: "",
  inputUsd: "1",
  cachedInputUsd: "",
  cacheWriteUsd: "",
  cacheWrite1hUsd: "",
  outputUsd: "2",
  audioInputUsd: "",
  audioOutputUsd: "",
  imageInputUsd: "",
  requestFeeUsd: "",
};

describe("a model's form", () => {
  test("reads a model from its form", () => {
    const typed = {
      ...model,
      kind: "speech",
      voices: "alloy, ash,\nalloy",
      outputLimit: "2147483647",
      studioDefault: "on",
    };
    expect(modelFields.parse(typed)).toMatchObject({
      voices: ["alloy", "ash"],
      contextWindow: null,
      outputLimit: 2_147_483_647,
      studioDefault: true,
    });
    expect(modelFields.parse(model).studioDefault).toBe(false);
    const largest = { outputLimit: "32768", defaultOutputLimit: "32768" };
    expect(modelFields.parse({ ...model, ...largest })).toMatchObject({ defaultOutputLimit: 32_768 });
  });

  test.each([
    { kind: "image" },
    { displayName: " " },
    { contextWindow: "0" },
    { contextWindow: "2147483648" },
    { outputLimit: "1.5" },
    { defaultOutputLimit: "32769" },
    { defaultOutputLimit: "0" },
    { outputLimit: "999", defaultOutputLimit: "1000" },
    { kind: "embedding", defaultOutputLimit: "1000" },
    { voices: "alloy" },
    { kind: "speech" },
  ])("refuses a model with %j", (wrong) => {
    const parsed = modelFields.safeParse({ ...model, ...wrong });
    expect(parsed.success).toBe(false);
  });
});

test.each([
  ["gpt-4.1-mini", true],
  ["a".repeat(128), true],
  ["a".repeat(129), false],
  ["with space", false],
  ["org/v1..2/.hidden", true],
  [".data", true],
  [".", false],
  ["..", false],
  ["org/../gpt", false],
  ["./gpt", false],
  ["gpt/..", false],
  ["", false],
])("accepts %j as a model's id: %j", (id, success) => {
  expect(modelIdFields.safeParse({ id }).success).toBe(success);
});

describe("a route's form", () => {
  test("reads a route from its form", () => {
    const typed = {
      ...route,
      providerId: "OpenAI",
      tierMultipliers: "flex 0.5, priority=2",
      idleSeconds: "14400",
      enabled: "on",
    };
    expect(routeFields.parse(typed)).toMatchObject({
      providerId: "openai",
      enabled: true,
      trustsStatedCost: false,
      tierMultipliers: { flex: "0.5", priority: "2" },
      idleSeconds: 14_400,
      totalSeconds: null,
    });
    expect(routeFields.parse({ ...route, totalSeconds: "14400" })).toMatchObject({ totalSeconds: 14_400 });
  });

  test.each([
    { providerId: "open ai" },
    { providerModel: "" },
    { idleSeconds: "14401" },
    { firstByteSeconds: "14401" },
    { totalSeconds: "14401" },
    { tierMultipliers: "flex" },
    { tierMultipliers: "flex -1" },
    { tierMultipliers: "flex 0.5, flex 2" },
    { tierMultipliers: "default 2" },
    { tierMultipliers: "flex 1000" },
    { tierMultipliers: "flex 0.00001" },
    { tierMultipliers: "__proto__ 2" },
  ])("refuses a route with %j", (wrong) => {
    expect(routeFields.safeParse({ ...route, ...wrong }).success).toBe(false);
  });
});

const workspace = "5b0f9df5-1f7c-4a3a-9a52-6f2c7f0f9b11";

test.each([
  [workspace, true],
  [` ${workspace} `, true],
  ["", false],
  ["Acme", false],
])("accepts %j as the workspace of a grant: %j", (typed, success) => {
  expect(grantFields.safeParse({ workspace: typed }).success).toBe(success);
});

describe("the price form", () => {
  test("reads a price from its form", () => {
    const typed = { ...price, from: "2026-12-24T00:00", inputUsd: "999999999999.999999", cachedInputUsd: "0" };
    expect(priceFields.parse(typed)).toMatchObject({
      latest: null,
      from: "2026-12-24T00:00:00Z",
      serviceTier: "default",
      inputUsd: "999999999999.999999",
      cachedInputUsd: "0",
      cacheWriteUsd: null,
    });
  });

  test.each([
    { inputUsd: "" },
    { inputUsd: "1e3" },
    { inputUsd: "1,5" },
    { inputUsd: "1000000000000" },
    { outputUsd: "0.0000001" },
    { cachedInputUsd: "-1" },
    { serviceTier: "Flex" },
    { from: "2026-02-30T00:00" },
    { latest: "x" },
    { seen: "" },
  ])("refuses a price with the invalid field %j", (wrong) => {
    expect(priceFields.safeParse({ ...price, ...wrong }).success).toBe(false);
  });
});
