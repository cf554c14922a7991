import { expect, test } from "vitest";
import { readModelChoices } from "../model-choice/model-choices.ts";
import { modelField } from "../model-choice/model-options.ts";
import { keyChanges, keyDifferences, readKeyForm } from "./key-form.ts";

function read(fields: Record<string, string>, expiresAt: string | null = null) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return readKeyForm(form, { choices: readModelChoices(form).choices, expiresAt });
}

test("a key form with only a name creates a key without limits", () => {
  expect(read({ name: " Nightly ", requestsPerMinute: "", allowedAddresses: "  " })).toEqual({
    key: { name: "Nightly" },
  });
});

test("every field of the key form is read", () => {
  expect(
    read({
      name: "K",
      environment: "staging",
      expiresOn: "2999-01-31",
      requestsPerMinute: "5",
      tokensPerMinute: "1000",
      monthlyBudgetUsd: "12.50",
      models: "selected",
      [modelField("allow", "a")]: "a",
      [modelField("allow", "b")]: "b",
      allowedAddresses: "192.0.2.7, 2001:db8::/32",
      strict: "on",
    }),
  ).toEqual({
    key: {
      name: "K",
      environment: "staging",
      expiresAt: "2999-01-31T00:00:00Z",
      requestsPerMinute: 5,
      tokensPerMinute: 1000,
      monthlyBudgetUsd: "12.5",
      allowedModels: ["a", "b"],
      allowedAddresses: ["192.0.2.7", "2001:db8::/32"],
      strict: true,
    },
  });
});

test.each([
  [100, "key"],
  [101, "errors"],
])("a key can select at most 100 models: with %d selected models, the key form returns %s", (count, outcome) => {
  const ids = Array.from({ length: count }, (_, n) => `m${n}`);
  const marks = Object.fromEntries(ids.map((id) => [modelField("allow", id), id]));
  expect(Object.keys(read({ name: "K", models: "selected", ...marks }))).toEqual([outcome]);
  expect(read({ name: "K", models: "all", ...marks })).toEqual({ key: { name: "K" } });
});

test.each([
  ["name", { name: " " }],
  ["name", { name: "x".repeat(101) }],
  ["name", { name: "a\tb" }],
  ["expiresOn", { name: "K", expiresOn: "2001-01-01" }],
  ["expiresOn", { name: "K", expiresOn: "tomorrow" }],
  ["requestsPerMinute", { name: "K", requestsPerMinute: "0" }],
  ["requestsPerMinute", { name: "K", requestsPerMinute: "1.5" }],
  ["tokensPerMinute", { name: "K", tokensPerMinute: "many" }],
  ["monthlyBudgetUsd", { name: "K", monthlyBudgetUsd: "-1" }],
  ["monthlyBudgetUsd", { name: "K", monthlyBudgetUsd: "0.0000000000001" }],
  ["allowedAddresses", { name: "K", allowedAddresses: "example.com" }],
  ["environment", { name: "K", environment: "Prod" }],
  ["models", { name: "K", models: "selected" }],
])("the key form shows an error for an invalid %s next to its field: %j", (field, fields) => {
  expect(Object.keys((read(fields) as { errors: object }).errors)).toEqual([field]);
});

test("an expiry stays exact if the form still shows its day, even when the day has begun", () => {
  const expiresAt = `${new Date(Date.now() + 1_000).toISOString().slice(0, -1)}123Z`;
  const today = expiresAt.slice(0, 10);
  expect(read({ name: "K", expiresOn: today }, expiresAt)).toMatchObject({ key: { expiresAt } });
  expect(read({ name: "K", expiresOn: "2999-01-31" }, expiresAt)).toMatchObject({
    key: { expiresAt: "2999-01-31T00:00:00Z" },
  });
  expect(read({ name: "K", expiresOn: "" }, expiresAt)).toEqual({ key: { name: "K" } });
});

test("the form of a changed key gives it all settings that the form shows, and removes limits that are empty", () => {
  expect(keyChanges({ name: "K", requestsPerMinute: 5 })).toEqual({
    name: "K",
    environment: "production",
    expiresAt: null,
    allowedModels: null,
    allowedAddresses: null,
    requestsPerMinute: 5,
    tokensPerMinute: null,
    monthlyBudgetUsd: null,
    strict: false,
  });
});

test("names the settings in which somebody else's change differs from yours", () => {
  const yours = keyChanges({ name: "Mine", monthlyBudgetUsd: "5", allowedModels: ["a", "b"], strict: true });
  const theirs = { ...keyChanges({ name: "Theirs" }), budget: { limitUsd: "5", spentUsd: "1" } };
  expect(keyDifferences(theirs, yours)).toEqual([
    { label: "Name", theirs: "Theirs", yours: "Mine" },
    { label: "Allowed models", theirs: "no limit", yours: "a, b" },
    { label: "Strict mode", theirs: "off", yours: "on" },
  ]);
  expect(keyDifferences(theirs, keyChanges({ ...yours, name: "Theirs", allowedModels: null, strict: false }))).toEqual(
    [],
  );
});
