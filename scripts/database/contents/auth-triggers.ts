import { z } from "zod";
import { expectedObjects, type ObjectChanges } from "./releases.ts";

/** The tables of the schema `auth`, and every trigger on them. */
export const authTriggers = z.object({
  tables: z.array(z.string()),
  triggers: z.array(z.object({ table: z.string(), name: z.string(), enabled: z.boolean(), function: z.string() })),
});
export type AuthTriggers = z.infer<typeof authTriggers>;

/** The file that defines our triggers on tables of the schema `auth`. */
export const authSchemaFile = "supabase/schemas/auth-schema.sql";

/** Parses the name of an object that is a trigger on a table of the schema `auth`; undefined for any other object. */
export function parseAuthTrigger(object: string): { name: string; table: string } | undefined {
  const [, name, table] = /^trigger (\w+) on auth\.(\w+)$/.exec(object) ?? [];
  return name !== undefined && table !== undefined ? { name, table } : undefined;
}

/**
 * A line about the triggers. `warn`: one of our triggers is disabled or missing. `unseen`: the database does not list
 * its triggers yet.
 */
type Line = { level: "ok" | "warn" | "unseen"; says: string };

/**
 * Lists the triggers on tables of the schema `auth`: our triggers by table, then those that unapplied migrations would
 * create, then triggers that are not ours. Leaves out our triggers that an applied migration created but that no longer
 * exist, because compareContents reports them.
 */
export function describeAuthTriggers(
  { auth, migrations }: { auth?: AuthTriggers | undefined; migrations: readonly string[] },
  changes: ObjectChanges,
): Line[] {
  if (!auth) return [{ level: "unseen", says: "the database does not list them yet: apply the migrations" }];
  const ours = ownTriggers(changes, new Set(Object.keys(changes)));
  const found = new Set(auth.triggers.map(nameTrigger));
  const created = new Set(ownTriggers(changes, new Set(migrations)));
  const missing = ours.filter((name) => !found.has(name) && !created.has(name));
  const [own, others] = [true, false].map((isOwn) =>
    auth.triggers.filter((trigger) => ours.includes(nameTrigger(trigger)) === isOwn),
  );
  const byTable = Map.groupBy(own ?? [], ({ table }) => table);
  return [
    ...[...byTable].map(
      ([table, triggers]): Line => ({
        level: triggers.every(({ enabled }) => enabled) ? "ok" : "warn",
        says: `auth.${table}: ${triggers.map(({ name, enabled }) => `${name}${enabled ? "" : " (disabled)"}`).join(", ")}`,
      }),
    ),
    ...missing.map((name): Line => ({ level: "warn", says: `missing: ${name}. Apply the migrations.` })),
    ...(others ?? []).map(
      (trigger): Line => ({
        level: "ok",
        says: `not ours: ${nameTrigger(trigger)}${trigger.enabled ? "" : " (disabled)"}, which runs ${trigger.function}`,
      }),
    ),
  ];
}

function nameTrigger({ name, table }: { name: string; table: string }): string {
  return `${name} on auth.${table}`;
}

function ownTriggers(changes: ObjectChanges, applied: ReadonlySet<string>): string[] {
  return Object.keys(expectedObjects(changes, applied)).flatMap((object) => {
    const trigger = parseAuthTrigger(object);
    return trigger ? [nameTrigger(trigger)] : [];
  });
}
