import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatLogEntry } from "./audit-log.ts";

const line = {
  actor: "Ada",
  actorId: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11",
  subject: "Nightly",
  subjectId: null,
  details: {},
};
/** Actions whose names the database's triggers compose from a subject and a verb. */
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

test("finds workspace activity actions in the SQL schema files", () => {
  expect(written).toContain("workspace.created");
});

test.each([...new Set([...written, ...composed])])("has a label for the activity action %s", (action) => {
  const sentence = formatLogEntry({ ...line, action });
  expect(sentence).toContain("Nightly");
  expect(sentence).not.toContain(action);
  expect(sentence).not.toContain(action.replaceAll(/[._]/g, " "));
});

test("an activity entry without an actor is attributed to the system or to a former member", () => {
  const deleted = { ...line, actor: null, action: "workspace.deleted" };
  expect(formatLogEntry(deleted)).toBe("A former member deleted the workspace “Nightly”");
  expect(formatLogEntry({ ...deleted, actorId: null })).toBe("System deleted the workspace “Nightly”");
});

test("an activity entry names what changed about a workspace", () => {
  const changed = (after: Record<string, string>) =>
    formatLogEntry({
      ...line,
      action: "workspace.changed",
      details: { before: { name: "Nightly", plan: "free" }, after: { name: "Nightly", plan: "free", ...after } },
    });
  expect(changed({ name: "Daily" })).toBe("Ada renamed the workspace to “Daily”");
  expect(changed({ plan: "team" })).toBe("Ada changed the plan to Team");
  expect(changed({ name: "Daily", plan: "team" })).toBe(
    "Ada renamed the workspace to “Daily” and changed the plan to Team",
  );
});

test("an activity entry names the settings of a key that changed", () => {
  const change = { before: null, after: 5 };
  const details = { expiresAt: change, requestsPerMinute: change, tokensPerMinute: change };
  expect(formatLogEntry({ ...line, action: "key.changed", details })).toBe(
    "Ada changed the expiry and rate limit of the API key “Nightly”",
  );
});

test("an activity entry says that a member left, or names who removed the member", () => {
  const left = { ...line, subject: "Ada", action: "member.left" };
  expect(formatLogEntry({ ...left, actor: null, subjectId: line.actorId })).toBe("Ada left");
  expect(formatLogEntry({ ...left, actor: "Grace" })).toBe("Grace removed Ada");
  expect(formatLogEntry({ ...left, actor: null, actorId: null })).toBe("System removed Ada");
});

test("an activity entry names the member whose role changed, and the new role", () => {
  const changed = { ...line, action: "member.role_changed", details: { before: "viewer", after: "admin" } };
  expect(formatLogEntry(changed)).toBe("Ada changed the role of Nightly to “Admin”");
  expect(formatLogEntry({ ...changed, subjectId: line.actorId })).toBe("Ada changed their own role to “Admin”");
});

test("an activity entry names the provider and the file of imported costs", () => {
  const details = { provider: "gcp", file: "january.csv" };
  const imported = { ...line, action: "provider_costs.imported", subject: "gcp january.csv" };
  expect(formatLogEntry({ ...imported, details })).toBe("Ada imported gcp costs from “january.csv”");
  expect(formatLogEntry(imported)).toBe("Ada imported provider costs: gcp january.csv");
});

test("an activity entry about a task limit says what changed", () => {
  const limits = { limitUsd: "5", calls: 200, endsAt: "2026-12-01T12:00:00.000Z" };
  const changed = (after: object) =>
    formatLogEntry({
      ...line,
      action: "envelope.changed",
      details: { before: limits, after: { ...limits, ...after } },
    });
  expect(changed({ limitUsd: "10" })).toBe("Ada changed the task limit of “Nightly”: spending from $5.00 to $10.00");
  expect(changed({ calls: null, endsAt: "2026-12-02T12:00:00.000Z" })).toBe(
    "Ada changed the task limit of “Nightly”: requests from 200 to unlimited, end from 1 Dec 2026, 12:00 UTC to 2 Dec 2026, 12:00 UTC",
  );
  expect(formatLogEntry({ ...line, action: "envelope.opened", details: { after: limits } })).toBe(
    "Ada set a task limit of $5.00 for “Nightly”",
  );
});
