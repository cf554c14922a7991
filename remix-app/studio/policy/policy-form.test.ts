import { expect, test } from "vitest";
import { modelField } from "../model-choice/model-options.ts";
import { policyFields, readPolicyForm } from "./policy-form.ts";

const rules = {
  allowedModels: null,
  deniedModels: ["old/model.1"],
  allowedRegions: ["eu" as const],
  requestsPerMinute: null,
  tokensPerMinute: 5_000,
  modelLimits: [
    { model: "a/chat-1.5", requestsPerMinute: 60, tokensPerMinute: null },
    { model: "b", requestsPerMinute: null, tokensPerMinute: 1_000_000_000 },
  ],
  contentRetentionDays: 30,
  contentCapture: false,
  providerCostVisible: true,
};

function read(changes: Record<string, string> = {}) {
  const { choices, regions, modelLimits, contentCapture: _, providerCostVisible: __, ...texts } = policyFields(rules);
  const form = new FormData();
  const marks = Object.fromEntries(choices.deny.map((id) => [modelField("deny", id), id]));
  const regionMarks = Object.fromEntries(regions.selected.map((region) => [`region_${region}`, "on"]));
  const rows: Record<string, string> = Object.assign(
    {},
    ...modelLimits.map(({ model, requests, tokens }, place) => ({
      [`limitModel_${place}`]: model,
      [`limitRequests_${place}`]: requests,
      [`limitTokens_${place}`]: tokens,
    })),
  );
  const sent = {
    ...texts,
    ...rows,
    models: choices.mode,
    ...marks,
    regions: String(regions.mode),
    ...regionMarks,
    ...changes,
  };
  for (const [name, value] of Object.entries(sent)) {
    if (value !== "off") form.set(name, value);
  }
  return readPolicyForm(form);
}

test("submitting the policy form unchanged requests the same policy, and an unticked box turns its setting off", () => {
  expect(read({ providerCostVisible: "on" }).rules).toEqual(rules);
  expect(read({ contentCapture: "on" }).rules).toMatchObject({ contentCapture: true, providerCostVisible: false });
});

test("the policy's model lists consist of the selected models, and an empty limit field removes the limit", () => {
  expect(
    read({
      models: "selected",
      [modelField("allow", "a/chat-1.5")]: "a/chat-1.5",
      [modelField("deny", "b")]: "b",
      [modelField("deny", "old/model.1")]: "off",
      tokensPerMinute: " ",
    }).rules,
  ).toMatchObject({ allowedModels: ["a/chat-1.5"], deniedModels: ["b"], tokensPerMinute: null });
  expect(read({ [modelField("allow", "b")]: "b" }).rules).toMatchObject({ allowedModels: null });
});

test("the policy's regions are the selected ones, and any region removes the restriction", () => {
  expect(read({ region_ch: "on" }).rules).toMatchObject({ allowedRegions: ["eu", "ch"] });
  expect(read({ regions: "all", region_ch: "on" }).rules).toMatchObject({ allowedRegions: null });
});

test("the policy's limits by model are the rows of the form, without the empty ones", () => {
  const { rules: changed } = read({
    limitModel_0: "",
    limitRequests_0: " ",
    limitModel_3: " c ",
    limitRequests_3: "1",
    limitTokens_3: "2",
  });
  expect(changed?.modelLimits).toEqual([
    { model: "b", requestsPerMinute: null, tokensPerMinute: 1_000_000_000 },
    { model: "c", requestsPerMinute: 1, tokensPerMinute: 2 },
  ]);
});

test("adding rows for limits by model does not save the policy form's typed values", () => {
  const { rules: changed, errors, fields } = read({ intent: "rows", limitModel_2: "c" });
  expect([changed, errors, fields.modelLimits.length]).toEqual([null, {}, 3]);
});

test.each([
  ["limitModel_1", { limitModel_1: "a/chat-1.5" }],
  ["limitModel_1", { limitModel_1: "" }],
  ["limitModel_1", { limitModel_1: "two words" }],
  ["limitRequests_0", { limitRequests_0: "" }],
  ["limitRequests_0", { limitRequests_0: "0" }],
  ["limitTokens_1", { limitTokens_1: "1000000001" }],
])("the policy form reports an invalid limit of a model at %s: %j", (field, changes) => {
  expect(Object.keys(read(changes).errors ?? {})).toEqual([field]);
});

test("searching models does not save the policy form's typed values", () => {
  const { rules, errors, fields } = read({ intent: "search", modelTerm: "chat", requestsPerMinute: "none" });
  expect([rules, errors, fields.requestsPerMinute, fields.choices.term]).toEqual([null, {}, "none", "chat"]);
});

test.each([
  ["models", { models: "selected" }],
  ["regions", { region_eu: "off" }],
  ["regions", { regions: "off", region_eu: "off" }],
  ["requestsPerMinute", { requestsPerMinute: "0" }],
  ["requestsPerMinute", { requestsPerMinute: "1000000001" }],
  ["tokensPerMinute", { tokensPerMinute: "1.5" }],
  ["tokensPerMinute", { tokensPerMinute: "1e3" }],
  ["contentRetentionDays", { contentRetentionDays: "0" }],
  ["contentRetentionDays", { contentRetentionDays: "366" }],
  ["contentRetentionDays", { contentRetentionDays: "" }],
])("the policy form reports an invalid %s at its field, and keeps the typed value: %j", (field, changes) => {
  const { errors, fields } = read(changes);
  expect(Object.keys(errors ?? {})).toEqual([field]);
  const { models: mode = "all", regions: _, region_eu: __, ...texts } = changes as Record<string, string>;
  expect(fields).toMatchObject({ ...texts, choices: { mode } });
});

test.each([
  { requestsPerMinute: "1", contentRetentionDays: "1" },
  { requestsPerMinute: "1000000000", contentRetentionDays: "365" },
])("the policy form accepts the boundary values %j", (changes) => {
  expect(read(changes).errors).toBeNull();
});

test("the policy form lists errors in the order of its fields", () => {
  const { errors } = read({ contentRetentionDays: "0", models: "selected", requestsPerMinute: "x" });
  expect(Object.keys(errors ?? {})).toEqual(["models", "requestsPerMinute", "contentRetentionDays"]);
});
