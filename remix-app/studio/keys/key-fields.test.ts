import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { choicesOf, pickerView } from "../model-choice/model-choices.ts";
import { KeyFields } from "./key-fields.tsx";

function show(
  values: Record<string, string>,
  { errors = {}, allowed = null }: { errors?: Record<string, string>; allowed?: string[] | null } = {},
): string {
  const picker = pickerView([], choicesOf({ allowed }));
  return renderToStaticMarkup(
    createElement(KeyFields, { values, errors, isNew: true, picker, plan: null, pickerAction: "/keys/new" }),
  );
}

test("a new key asks for its name, expiry and budget, and folds the other settings", () => {
  const [main = "", folded = ""] = show({}).split("<details");
  expect([...main.matchAll(/ name="(\w+)"/g)].map(([, name]) => name)).toEqual([
    "name",
    "expiresOn",
    "monthlyBudgetUsd",
  ]);
  expect(folded).not.toMatch(/^ open/);
});

test.each([
  ["an error", {}, { errors: { tokensPerMinute: "Enter tokens" } }],
  ["an error of the models", {}, { errors: { models: "Select at least one model" } }],
  ["a value", { requestsPerMinute: "5" }, {}],
  ["strict mode", { strict: "on" }, {}],
  ["selected models", {}, { allowed: ["demo-chat"] }],
])("the folded settings are open with %s", (_, values, options) => {
  expect(show(values, options)).toContain("<details open");
});

test("the folded settings stay closed with an error above them, or the default environment", () => {
  expect(show({ environment: "production" }, { errors: { name: "Enter a name" } })).not.toContain("<details open");
});
