import { expect, test } from "vitest";
import { listStatements } from "../books/statements/statement.ts";
import { writeKeyCursor } from "../http/list-page.ts";
import { changeOperations, readOperations } from "./definitions.ts";

const call = { context: { requestId: "id" } } as Parameters<typeof readOperations.listServiceAccounts.read>[0];

test("refuses a cursor of service accounts that doesn't end with a UUID with 400", async () => {
  const query = { limit: 1, cursor: writeKeyCursor(["Deployments", "no UUID"]) };
  await expect(readOperations.listServiceAccounts.read(call, query)).rejects.toMatchObject({ status: 400 });
});

test("refuses a cursor of statements with a month of the year 0 with 400", async () => {
  const options = { member: {}, month: "2026-10", cursor: writeKeyCursor(["0000-01", "1"]) } as never;
  await expect(listStatements(call.context, options)).rejects.toMatchObject({ status: 400 });
});

test.each([
  ["Demo Next", true],
  ["\u200b", false],
  ["\u3164", false],
  ["two\nlines", false],
  ["x\u202ey", false],
])("a model, a plan and an app can have the name %j: %j", (name, success) => {
  const { createModel, createPlan, registerApp } = changeOperations;
  for (const { body, example } of [
    { body: createModel.body, example: { ...(createModel.example as object), displayName: name } },
    { body: createModel.body, example: { ...(createModel.example as object), ownedBy: name } },
    { body: createPlan.body, example: { ...(createPlan.example as object), name } },
    { body: registerApp.body, example: { ...(registerApp.example as object), displayName: name } },
  ]) {
    expect(body.safeParse(example).success).toBe(success);
  }
});

test.each([
  ["org/gpt-5.data", true],
  ["..", false],
  ["org/./gpt", false],
])("a model can have the ID %j: %j", (id, success) => {
  const { body, example } = changeOperations.createModel;
  expect(body.safeParse({ ...(example as object), id }).success).toBe(success);
});
