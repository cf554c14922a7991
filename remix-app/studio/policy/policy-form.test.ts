import { expect, test } from "vitest";
import { policyFields, readPolicyForm } from "./policy-form.ts";
import { modelRows, pageOfRows } from "./policy-frame.ts";

const rules = {
  allowedModels: null,
  deniedModels: ["old/model.1"],
  requestsPerMinute: null,
  tokensPerMinute: 5_000,
  contentRetentionDays: 30,
  contentCapture: false,
  providerCostVisible: true,
};
const frame = {
  plan: "Team",
  requestsPerMinute: 60,
  tokensPerMinute: null,
  models: [
    { id: "a/chat-1.5", name: "Chat", kind: "chat" as const, granted: true },
    { id: "b", name: "Voice", kind: "speech" as const, granted: false },
  ],
};
const rows = modelRows(frame, rules);
const [chat, voice, gone] = rows.map(({ field }) => field);

function read(changes: Record<string, string> = {}) {
  const { choices, contentCapture: _, providerCostVisible: __, ...texts } = policyFields(rules, rows);
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...texts, ...choices, ...changes })) form.set(name, value);
  return readPolicyForm(form, rows);
}

test("models are the catalogue's, and those the policy names that have left it", () => {
  expect(rows.map(({ id, kind, granted, choice }) => [id, kind, granted, choice])).toEqual([
    ["a/chat-1.5", "chat", true, ""],
    ["b", "speech", false, ""],
    ["old/model.1", null, false, "deny"],
  ]);
  expect(new Set(rows.map(({ field }) => field)).size).toBe(3);
  for (const { field } of rows) expect(field).toMatch(/^[a-z][a-z0-9_]{0,63}$/);
});

test("the form of a policy, sent as it is, asks for that policy; a box that is not ticked is off", () => {
  expect(read({ providerCostVisible: "on" }).rules).toEqual(rules);
  expect(read({ contentCapture: "on" }).rules).toMatchObject({ contentCapture: true, providerCostVisible: false });
});

test("marks make the lists, and an empty limit lifts it", () => {
  expect(
    read({
      models: "listed",
      [String(chat)]: "allow",
      [String(voice)]: "deny",
      [String(gone)]: "",
      tokensPerMinute: " ",
    }).rules,
  ).toMatchObject({ allowedModels: ["a/chat-1.5"], deniedModels: ["b"], tokensPerMinute: null });
  expect(read({ [String(chat)]: "allow" }).rules).toMatchObject({ allowedModels: null });
});

test.each([
  ["models", { models: "listed" }],
  ["requestsPerMinute", { requestsPerMinute: "0" }],
  ["requestsPerMinute", { requestsPerMinute: "1000000001" }],
  ["tokensPerMinute", { tokensPerMinute: "1.5" }],
  ["tokensPerMinute", { tokensPerMinute: "1e3" }],
  ["contentRetentionDays", { contentRetentionDays: "0" }],
  ["contentRetentionDays", { contentRetentionDays: "366" }],
  ["contentRetentionDays", { contentRetentionDays: "" }],
])("a bad %s is told at its field, and what was typed stays: %j", (field, changes) => {
  const { errors, fields } = read(changes);
  expect(Object.keys(errors ?? {})).toEqual([field]);
  expect(fields).toMatchObject(changes);
});

test.each([
  { requestsPerMinute: "1", contentRetentionDays: "1" },
  { requestsPerMinute: "1000000000", contentRetentionDays: "365" },
])("the edges are taken: %j", (changes) => {
  expect(read(changes).errors).toBeNull();
});

test("what is wrong is told in the order of the page", () => {
  const { errors } = read({ contentRetentionDays: "0", models: "listed", requestsPerMinute: "x" });
  expect(Object.keys(errors ?? {})).toEqual(["models", "requestsPerMinute", "contentRetentionDays"]);
});

test("the form of one page of models keeps the rules of the others", () => {
  const form = new FormData();
  const { choices: _, contentCapture: __, providerCostVisible: ___, ...texts } = policyFields(rules, rows);
  for (const [name, value] of Object.entries({ ...texts, [String(voice)]: "deny" })) form.set(name, value);
  expect(readPolicyForm(form, rows).rules).toMatchObject({ deniedModels: ["b", "old/model.1"] });
});

test.each([
  [25, [25]],
  [26, [25, 1]],
  [51, [25, 25, 1]],
])("of %d models a page has 25, and none is lost", (length, sizes) => {
  const models = Array.from({ length }, (_, n) => ({ ...frame.models[0], id: `m${n}`, name: `M ${n}` }) as never);
  const all = modelRows({ ...frame, models }, { allowedModels: null, deniedModels: [] });
  const seen: string[][] = [];
  for (let cursor: string | null | undefined = null; cursor !== undefined; ) {
    const page = pageOfRows(all, { term: "m ", cursor, requestId: "r" });
    seen.push(page.rows.map(({ id }) => id));
    cursor = page.nextCursor ?? undefined;
  }
  expect(seen.map((page) => page.length)).toEqual(sizes);
  expect(seen.flat()).toEqual(all.map(({ id }) => id));
});

test("models that can be used or have a rule come first, and a search looks in names and ids", () => {
  const ids = (term: string) => pageOfRows(rows, { term, cursor: null, requestId: "r" }).rows.map(({ id }) => id);
  expect(ids("")).toEqual(["a/chat-1.5", "old/model.1", "b"]);
  expect([ids("VOICE"), ids("old/"), ids("none")]).toEqual([["b"], ["old/model.1"], []]);
});
