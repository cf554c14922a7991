import { expect, test } from "vitest";
import { chooseEndpoint, testCostUsd, testRoutes } from "./test-call.ts";

test.each([
  ["chat", ["chat", "responses"], "chat"],
  ["chat", ["responses", "messages"], "responses"],
  ["chat", ["messages", "count_tokens"], "messages"],
  ["chat", ["embeddings"], null],
  ["embedding", ["chat", "embeddings"], "embeddings"],
  ["speech", ["speech"], "speech"],
  ["image", ["chat"], null],
  ["toString", ["chat"], null],
])("a %s model is tested by the first path that its provider has of %j: %s", (kind, endpoints, expected) => {
  expect(chooseEndpoint(kind, endpoints)).toBe(expected);
});

const amounts = {
  ...{ inputUsd: "2.5", cachedInputUsd: "", cacheWriteUsd: "", cacheWrite1hUsd: "", outputUsd: "10" },
  ...{ audioInputUsd: "", audioOutputUsd: "", imageInputUsd: "", requestFeeUsd: "" },
};

test("a test's cost is exact, at the typed prices", () => {
  const usage = { input_tokens: 9, output_tokens: 2 };
  expect(testCostUsd(amounts, { usage, servedTier: null })).toBe("0.0000425");
  expect(testCostUsd({ ...amounts, outputUsd: "" }, { usage, servedTier: null })).toBeNull();
  expect(testCostUsd({ ...amounts, inputUsd: "x" }, { usage, servedTier: null })).toBeNull();
});

test("a test calls no provider that isn't configured or doesn't serve the kind, and at most ten routes", async () => {
  const providers = ["openai", "", ...Array.from({ length: 9 }, () => "eu_openai")];
  const routes = providers.flatMap((providerId, index) => [
    [`route${index + 1}_providerId`, providerId] as const,
    [`route${index + 1}_providerModel`, "orbit-1"] as const,
  ]);
  const facts = { region: null, billingName: null, account: null, hasKey: true };
  const listing = { providers: [{ ...facts, id: "openai", kind: "openai", endpoints: ["embeddings"] }], kinds: [] };
  const typed = { kind: "chat", voices: "", ...Object.fromEntries(routes) };
  // Nothing listens there, so a call would fail differently.
  const context = { env: { AI_URL: "http://127.0.0.1:9" }, requestId: "test" } as Parameters<typeof testRoutes>[0];
  const results = await testRoutes(context, {
    typed,
    listing,
    tester: { actor: "admin" },
    signal: new AbortController().signal,
  });
  expect(results.map(({ text }) => text)).toEqual([
    "Not tested: openai doesn’t serve chat models.",
    "Not tested: enter the provider and its model name first.",
    ...Array.from({ length: 8 }, () => "Not tested: eu_openai isn’t configured."),
    "Not tested: a test calls at most 10 routes.",
  ]);
});
