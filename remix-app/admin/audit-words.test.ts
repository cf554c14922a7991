import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { actionLabel, actorLabel } from "./words.ts";

const acts = /'((?:account|admin|ai_keys|app|books|costs|credits|model|plan|recovery|required_mfa)\.[a-z_]+)'/g;
const written = globSync("supabase/schemas/**/*.sql").flatMap((file) =>
  [...readFileSync(file, "utf8").matchAll(acts)].map(([, action = ""]) => action),
);

test("the database's own words are found", () => {
  expect(written).toContain("recovery.create");
});

test.each([...new Set(written)])("%s is called something, as the others are", (action) => {
  expect(actionLabel(action)).toMatch(/^[A-Z][^.]+$/);
});

test("who did something is named, whoever it was", () => {
  const by = { actorEmail: null, action: "recovery.create", requestId: "request-1" };
  expect(actorLabel({ ...by, actorEmail: "ada@example.com" })).toBe("ada@example.com");
  expect(actorLabel(by)).toBe("A former admin");
  expect(actorLabel({ ...by, requestId: null })).toBe("The operator");
});

test("an account that its owner deleted was deleted by no admin", () => {
  expect(actorLabel({ actorEmail: null, action: "account.deleted", requestId: "request-1" })).toBe("The owner");
});
