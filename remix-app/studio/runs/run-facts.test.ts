import { expect, test } from "vitest";
import { runFacts } from "./run-facts.ts";
import { pricedRun } from "./run-fixtures.ts";
import { runDetail } from "./runs.ts";

const routes = [
  { position: 1, provider: "demo", model: "upstream", prices: [{ min_input_tokens: 0, input: "2", output: "8" }] },
];
const id = "0199c5b8-0000-7000-8000-000000000000";

function factsOf(changes: object): Record<string, string> {
  const run = { ...pricedRun({ routes, calls: [{ route: 1, usage: { input_tokens: 10 } }] }), ...changes };
  const detail = runDetail.parse({
    run,
    modelKind: "chat",
    steps: [],
    attempts: [],
    ledger: [],
    answeredBy: routes[0],
    envelopeId: null,
    budgets: [],
  });
  return Object.fromEntries(runFacts(detail));
}

test.for<[string, object, object]>([
  ["a key", {}, { "Called with": "Key “CI”", "Key created by": "Ada", App: undefined }],
  [
    "an app's key",
    { appId: id, appName: "Notes" },
    { "Called with": "Key “CI”", App: "Notes", "Key created by": "Ada" },
  ],
  [
    "an app's token",
    { credentialSource: "app_token", keyId: null, keyName: null, appId: id, appName: null },
    { "Called with": "App token", App: `Deleted app ${id}`, Member: "Ada" },
  ],
  [
    "a deleted account's session",
    { credentialSource: "session", keyId: null, keyName: null, memberName: null },
    { "Called with": "Session of a signed-in member", Member: "Deleted account", App: undefined },
  ],
])("run facts show that the call was made with %s", ([, changes, facts]) => {
  const { "Called with": calledWith, App, Member, "Key created by": creator } = factsOf(changes);
  expect({ "Called with": calledWith, App, Member, "Key created by": creator }).toEqual(facts);
});

test("run facts show the HTTP status, absolute times with their zone, and flags as text", () => {
  expect(factsOf({ httpStatus: 504, marks: ["unpriced_tier"], entityId: "order-7" })).toMatchObject({
    "HTTP status": "504",
    Started: "1 Mar 2026, 12:00:00 UTC",
    Ended: "1 Mar 2026, 12:00:00 UTC",
    "Entity label": "order-7",
    Notes: "The provider served a service tier that has no price here, so the default prices were charged.",
  });
});

test.for<[string, object, boolean]>([
  ["a call whose usage is unknown", { status: "failed", usageSource: "unavailable" }, false],
  ["a running call", { status: "running", usageSource: null }, false],
  ["an answer without any tokens", {}, true],
])("run facts of %s show tokens only if they are known", ([, changes, isShown]) => {
  const facts = factsOf({ ...changes, inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, costUsd: "0" });
  expect(["Tokens in" in facts, "Tokens out" in facts]).toEqual([isShown, isShown]);
});
