import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { activitySentence } from "./audit-log.ts";

const line = { actor: "Ada", actorId: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11", subject: "Nightly" };
/** Actions that triggers compose from parts. */
const composed = ["member", "role", "invitation", "agent_access"].flatMap(
  (subject) =>
    ({
      member: ["joined", "left", "role_changed"],
      role: ["created", "changed", "deleted"],
      invitation: ["sent", "accepted", "withdrawn"],
      agent_access: ["approved", "declined", "withdrawn"],
    })[subject]?.map((verb) => `${subject}.${verb}`) ?? [],
);
const written = globSync("supabase/schemas/**/*.sql").flatMap((file) =>
  [...readFileSync(file, "utf8").matchAll(/private\.log_workspace_change\([^;]*?'([a-z_]+\.[a-z_]+)'/g)].map(
    ([, action = ""]) => action,
  ),
);

test("finds the activity actions in the database's own code", () => {
  expect(written).toContain("workspace.created");
});

test.each([...new Set([...written, ...composed])])("has a label for the activity action %s", (action) => {
  const sentence = activitySentence({ ...line, action });
  expect(sentence).toContain("Nightly");
  expect(sentence).not.toContain(action);
  expect(sentence).not.toContain(action.replaceAll(/[._]/g, " "));
});

test("an activity entry without an actor belongs to the system or to a former member", () => {
  const deleted = { ...line, actor: null, action: "workspace.deleted" };
  expect(activitySentence(deleted)).toBe("A former member deleted the workspace Nightly");
  expect(activitySentence({ ...deleted, actorId: null })).toBe("System deleted the workspace Nightly");
});
