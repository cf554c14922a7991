import path from "node:path";
import { majorVersion } from "@gatehousehq/local-stack/services/postgres/placement";
import type { MigrationFile } from "../migrations.ts";
import { type AuthTriggers, authSchemaFile, parseAuthTrigger } from "./auth-triggers.ts";
import type { Contents } from "./read-contents.ts";
import { expectedObjects, grantsPrefix, type Manifest, type ObjectChanges, type Objects, partsOf } from "./releases.ts";

/**
 * A difference between a database and what this checkout expects, with advice. `warn` means that the checkout works in
 * spite of it.
 */
export type Difference = { level: "fail" | "warn"; says: string; advice: string };
export type Checkout = { migrations: readonly MigrationFile[]; changes: ObjectChanges; manifest: Manifest };

const required = Number(majorVersion);
const push = "Apply the migrations: npx supabase db push --linked";

const fail = (says: string, advice: string): Difference => ({ level: "fail", says, advice });
const warn = (says: string, advice: string): Difference => ({ level: "warn", says, advice });

/** Reports the differences, one for each object. */
export function compareContents(contents: Contents, checkout: Checkout): Difference[] {
  const major = Math.floor(contents.postgres / 10_000);
  if (major < required) {
    return [fail(`Postgres ${major} is below ${required}`, "Upgrade the project's Postgres.")];
  }
  const releases = checkout.manifest.releases.map(({ version }) => version);
  if (!contents.objects) {
    return [fail(`older than ${releases[0]}: the database cannot describe itself`, `${push}.`)];
  }
  const known = new Set(checkout.migrations.map(({ version }) => version));
  const newest = checkout.migrations.at(-1)?.version ?? "";
  const [newer, unknown] = [true, false].map((isNewer) =>
    contents.migrations.filter((version) => !known.has(version) && version > newest === isNewer),
  );
  const merged = contents.migrations.filter((version) => checkout.manifest.merged.includes(version));
  if (merged.length > 0) {
    // Its objects are compared with all migrations of this checkout, which hold what the merged ones did.
    const objects = compareObjects(contents.objects, {
      expected: expectedObjects(checkout.changes, known),
      awaited: {},
      isExact: major === required,
      auth: contents.auth,
    });
    const advice = 'If nothing else differs, correct its history: "Unreleased migrations" in docs/upgrading.md.';
    return [
      fail(
        `unreleased: migrations ${merged.join(", ")} were merged into other files after they had been applied`,
        advice,
      ),
      ...objects,
    ];
  }
  const applied = new Set(contents.migrations);
  const missing = checkout.migrations.filter(({ version }) => !applied.has(version));
  const differences = [
    ...(missing.length > 0 ? [fail(describeAge(applied, checkout), push)] : []),
    ...missing.map(({ file }) => fail(`missing: migration ${path.basename(file)}`, push)),
    ...(unknown ?? []).map((version) =>
      warn(`extra: migration ${version} is recorded and has no file here`, "Make sure that it only adds objects."),
    ),
  ];
  if (newer && newer.length > 0) {
    return [
      ...differences,
      warn(
        `newer release: migration ${newer.join(", ")} came after ${releases.at(-1)} and this checkout`,
        "Its objects are not compared: run the doctor of that release.",
      ),
    ];
  }
  // Without recorded migrations, there is nothing to compare with.
  if (missing.length === checkout.migrations.length) return differences;
  const isExact = major === required;
  if (!isExact) {
    differences.push(warn(`Postgres ${major} is above ${required}`, "Only names of objects are compared."));
  }
  const expected = expectedObjects(checkout.changes, applied);
  const awaited = expectedObjects(checkout.changes, known);
  return [...differences, ...compareObjects(contents.objects, { expected, awaited, isExact, auth: contents.auth })];
}

/** Describes the release of a database that lacks some of this checkout's migrations. */
function describeAge(applied: ReadonlySet<string>, { manifest }: Checkout): string {
  const has = ({ migrations }: Manifest["releases"][number]) =>
    Object.keys(migrations).every((file) => applied.has(file.slice(0, 14)));
  const whole = manifest.releases.findLast(has);
  return whole
    ? `older release: the database is of ${whole.version}`
    : `older than ${manifest.releases[0]?.version}: the database lacks migrations of it`;
}

type Comparison = { expected: Objects; awaited: Objects; isExact: boolean; auth: AuthTriggers | undefined };

/** @param awaited objects that the missing migrations would create: if they exist already, they are not extra */
function compareObjects(actual: Objects, { expected, awaited, isExact, auth }: Comparison): Difference[] {
  const isGrant = (name: string) => name.startsWith(grantsPrefix);
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])].filter((name) => !isGrant(name));
  const disabled = names.filter((name) => name in expected && isDisabled(name, auth));
  const changed = names.filter(
    (name) => name in expected && name in actual && expected[name] !== actual[name] && !disabled.includes(name),
  );
  const dropped = names.filter((name) => !(name in actual));
  const extra = names.filter((name) => !(name in expected) && !(name in awaited));
  // Omits the parts of dropped or extra tables and functions, because the table or function is reported as a whole.
  const isPart = partsOf([...dropped, ...extra]);
  const grantsOf = (objects: Objects) => listGrants(objects, isPart);
  const [before, planned, after] = [grantsOf(expected), grantsOf(awaited), grantsOf(actual)];
  const lost = [...before].filter(([grant, isOptional]) => !isOptional && !after.has(grant));
  const gained = [...after.keys()].filter((grant) => !before.has(grant) && !planned.has(grant)).sort();
  const whole = (objects: string[]) => objects.filter((name) => !isPart(name));
  return [
    ...whole(isExact ? changed : [])
      .sort()
      .map((name) => fail(`changed by hand: ${name}`, "Restore its definition.")),
    ...disabled
      .sort()
      .map((name) => fail(`disabled: ${name}`, `Create it again from ${authSchemaFile}, which enables it.`)),
    ...[...whole(dropped), ...lost.map(([grant]) => grant)].sort().map((name) => describeDropped(name, auth)),
    ...whole(extra)
      .sort()
      .map((name) => fail(`extra: ${name}`, "Remove it, or move it to a schema of your own.")),
    ...gained.map((name) => fail(`extra: ${name}`, "Revoke it.")),
  ];
}

function isDisabled(name: string, auth: AuthTriggers | undefined): boolean {
  const trigger = parseAuthTrigger(name);
  return (
    auth?.triggers.some((one) => one.name === trigger?.name && one.table === trigger.table && !one.enabled) === true
  );
}

/** A missing trigger on a Supabase Auth table is only a warning if this version of Auth lacks the table. */
function describeDropped(name: string, auth: AuthTriggers | undefined): Difference {
  const trigger = parseAuthTrigger(name);
  if (!trigger) return fail(`dropped: ${name}`, "Restore it.");
  const create = `create the trigger from ${authSchemaFile}`;
  if (!auth || auth.tables.includes(trigger.table)) return fail(`dropped: ${name}`, `Restore it: ${create}.`);
  return warn(
    `no table for ${name}`,
    `This version of Supabase Auth lacks auth.${trigger.table}. After an upgrade that adds it, ${create}.`,
  );
}

const grantsName = /^grants to (\S+|"[^"]+") on (.+)$/;

/**
 * Splits "grants to <role> on <object>" into one line for each privilege. A line's value is true if the privilege is
 * optional: hosted Supabase grants it by default, but a project can switch that off.
 */
function listGrants(objects: Objects, isPart: (name: string) => boolean): Map<string, boolean> {
  return new Map(
    Object.entries(objects).flatMap(([name, list]) => {
      const [, role, object] = isPart(name) ? [] : (grantsName.exec(name) ?? []);
      if (role === undefined) return [];
      return splitPrivileges(list).map(({ privilege, isOptional }): [string, boolean] => {
        const option = privilege.endsWith("*") ? " with grant option" : "";
        return [`grant ${privilege.replace(/\*$/, "")} on ${object} to ${role}${option}`, isOptional];
      });
    }),
  );
}

/** Splits a list such as `select,update (name),truncate?`, where `?` marks an optional privilege. */
export function splitPrivileges(list: string): { privilege: string; isOptional: boolean }[] {
  return list.split(",").map((entry) => ({ privilege: entry.replace(/\?$/, ""), isOptional: entry.endsWith("?") }));
}
