import { expect, test } from "vitest";
import { modelField } from "../model-choice/model-options.ts";
import { policyFields, readPolicyForm } from "./policy-form.ts";

const rules = {
  allowedModels: null,
  deniedModels: ["old/model.1"],
  allowedRegions: ["eu" as const],
  requestsPerMinute: null,
  tokensPerMinute: 5_000,
  contentRetentionDays: 30,
  contentCapture: false,
  providerCostVisible: true,
};

function read(changes: Record<string, string> = {}) {
  const { choices, regions, contentCapture: _, providerCostVisible: __, ...texts } = policyFields(rules);
  const form = new FormData();
  const marks = Object.fromEntries(choices.deny.map((id) => [modelField("deny", id), id]));
  const regionMarks = Object.fromEntries(regions.selected.map((region) => [`region_${region}`, "on"]));
  const sent = { ...texts, models: choices.mode, ...marks, regions: String(regions.mode), ...regionMarks, ...changes };
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

test("searching models does not save the policy form's typed values", () => {
  const { rules, errors, fields } = read({ intent: "search", modelTerm: "chat", requestsPerMinute: "none" });
  expect([rules, errors, fields.requestsPerMinute, fields.choices.term]).toEqual([null, {}, "none", "chat"]);
});

test.each([
  ["models", { models: "selected" }],
  ["regions", { region_eu: "off" }],
  // A page of release 0.2.0 has no choice of regions.
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
