import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { actionLabel, actorLabel, auditActions, isAuditAction } from "./audit-actions.ts";

/** Matches the code that writes an entry: up to the end of its statement. */
const entry =
  /(?:private\.record_admin_action\s*\(|private\.record_app_change\s*\(|insert into private\.admin_audit_log\b)[^;]*;/g;
/** Matches an action, and the beginning of one that the code completes: `'required_mfa.' || step`. */
const action = /'([a-z][a-z_]*\.[a-z_]*)'/g;
/** Matches an action that a function passes on in its change. */
const passedOn = /"action": "([a-z_.]+)"/g;
/** Actions of which the code states only the beginning. */
const composed: Readonly<Record<string, readonly string[]>> = {
  "required_mfa.": ["require", "make_optional", "begin_reset", "finish_reset"].map((step) => `required_mfa.${step}`),
  "app.": ["app.edit", "app.enable", "app.disable"],
  "service_account.": [
    ...["service_account.add", "service_account.edit", "service_account.enable", "service_account.disable"],
    ...["service_account.rotate_secret", "service_account.add_key", "service_account.remove_credential"],
    "service_account.revoke",
  ],
};
/** The roles before `.grant` and `.revoke`, which private.set_console_role writes. */
const roleActions = ["admin", "finance"].flatMap((role) => [`${role}.grant`, `${role}.revoke`]);

const sources = [...globSync("supabase/schemas/**/*.sql"), ...globSync("scripts/operator/**/*.ts")];
const code = sources.map((file) => readFileSync(file, "utf8")).join("\n");
const written = new Set([
  ...[...code.matchAll(entry)].flatMap(([statement]) =>
    [...statement.matchAll(action)].flatMap(([, text = ""]) => composed[text] ?? [text]),
  ),
  ...[...code.matchAll(passedOn)].map(([, text = ""]) => text),
  ...roleActions,
]);
const listed = Object.values(auditActions).flatMap((actions) => Object.keys(actions));

test("the list has every action that the database's functions and the operator's commands write, once", () => {
  expect(listed.toSorted()).toEqual([...written].toSorted());
});

test("every label starts with a capital letter and has no period", () => {
  const labels = Object.values(auditActions).flatMap((actions) => Object.values(actions));
  expect(labels.filter((label) => !/^[A-Z][^.]+$/.test(label))).toEqual([]);
});

test("an action of a newer version has a readable label", () => {
  expect([isAuditAction("model.merge_all"), actionLabel("model.merge_all")]).toEqual([false, "model merge all"]);
});
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
