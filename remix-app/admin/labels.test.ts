import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { actionLabel, actorLabel } from "./labels.ts";

const acts = /'((?:account|admin|ai_keys|app|books|costs|credits|model|plan|recovery|required_mfa)\.[a-z_]+)'/g;
const written = globSync("supabase/schemas/**/*.sql").flatMap((file) =>
  [...readFileSync(file, "utf8").matchAll(acts)].map(([, action = ""]) => action),
);

test("the search of the SQL files finds the audit actions", () => {
  expect(written).toContain("recovery.create");
});

test.each([...new Set(written)])(
  "the label of the audit action %s starts with a capital letter and has no period",
  (action) => {
    expect(actionLabel(action)).toMatch(/^[A-Z][^.]+$/);
  },
);

test("names the admin, a former admin or the operator behind an action", () => {
  const by = { actorEmail: null, action: "recovery.create", requestId: "request-1" };
  expect(actorLabel({ ...by, actorEmail: "ada@example.com" })).toBe("ada@example.com");
  expect(actorLabel(by)).toBe("A former admin");
  expect(actorLabel({ ...by, requestId: null })).toBe("The operator");
});

test("names the system as the actor of an automatic import", () => {
  const action = "costs.import_automatically";
  expect(actorLabel({ actorEmail: null, action, requestId: null })).toBe("The system");
});

test("names the owner as the actor if the owner deleted the account", () => {
  expect(actorLabel({ actorEmail: null, action: "account.deleted", requestId: "request-1" })).toBe("The owner");
});
