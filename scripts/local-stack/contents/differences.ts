import path from "node:path";
import { listMigrations, type MigrationFile } from "../migrations.ts";
import { majorVersion } from "../services/postgres/placement.ts";
import { type Contents, type Project, readContents } from "./read-contents.ts";
import {
  expectedObjects,
  grantsPrefix,
  type Manifest,
  type ObjectChanges,
  type Objects,
  partsOf,
  readManifest,
  readObjectChanges,
} from "./releases.ts";

/** How a database differs from what this checkout expects. `warn`: the checkout works with it. */
export type Difference = { level: "fail" | "warn"; says: string };
export type Checkout = { migrations: readonly MigrationFile[]; changes: ObjectChanges; manifest: Manifest };

const required = Number(majorVersion);
const push = "npx supabase db push --remote";

const fail = (says: string): Difference => ({ level: "fail", says });
const warn = (says: string): Difference => ({ level: "warn", says });

/**
 * Compares a project's database with what the checkout's migrations make. Changes nothing.
 * @throws StackError when the project cannot be asked
 */
export async function findContentDifferences(root: string, project: Project): Promise<Difference[]> {
  const [migrations, changes, manifest] = await Promise.all([
    listMigrations(path.join(root, "supabase/migrations")),
    readObjectChanges(root),
    readManifest(root),
  ]);
  return compareContents(await readContents(project), { migrations, changes, manifest });
}

/** Names each difference with its object. */
export function compareContents(contents: Contents, checkout: Checkout): Difference[] {
  const major = Math.floor(contents.postgres / 10_000);
  if (major < required) {
    return [fail(`Postgres ${major}: Postgres ${required} or later is required. Upgrade the project's database.`)];
  }
  const first = checkout.manifest.releases[0]?.version;
  if (!contents.objects) {
    return [
      fail(
        `older than ${first}: the database cannot describe itself. Apply the migrations (${push}), or, where others ` +
          'have been applied, read "A database from before 0.1.0" in docs/operating.md.',
      ),
    ];
  }
  const applied = new Set(contents.migrations);
  const missing = checkout.migrations.filter(({ version }) => !applied.has(version));
  const differences = missing.map(({ file }) => fail(`missing: migration ${path.basename(file)}. Apply it: ${push}`));
  if (missing.length > 0) differences.unshift(fail(describeAge(applied, checkout)));

  const known = new Set(checkout.migrations.map(({ version }) => version));
  const newest = checkout.migrations.at(-1)?.version ?? "";
  const unknown = contents.migrations.filter((version) => !known.has(version));
  const newer = unknown.filter((version) => version > newest);
  const between = unknown.filter((version) => version < newest);
  differences.push(...between.map((version) => warn(`extra: migration ${version} is recorded and has no file here.`)));
  if (newer.length > 0) {
    const release = checkout.manifest.releases.at(-1)?.version;
    const says = `newer release: migration ${newer.join(", ")} came after ${release} and this checkout.`;
    return [...differences, warn(`${says} Its objects are not compared: run the doctor of that release.`)];
  }
  // Without a record, nothing says what to expect.
  if (missing.length === checkout.migrations.length) return differences;

  const isExact = major === required;
  if (!isExact) {
    differences.push(
      warn(`Postgres ${major} is newer than ${required}: definitions are not compared, only whether objects exist.`),
    );
  }
  return [
    ...differences,
    ...compareObjects(expectedObjects(checkout.changes, applied), contents.objects, { isExact }).map(fail),
  ];
}

/** The release of a database that lacks migrations of this checkout. */
function describeAge(applied: ReadonlySet<string>, { manifest }: Checkout): string {
  const has = ({ migrations }: Manifest["releases"][number]) =>
    Object.keys(migrations).every((file) => applied.has(file.slice(0, 14)));
  const whole = manifest.releases.findLast(has);
  return whole
    ? `older release: the database is of ${whole.version}.`
    : `older than ${manifest.releases[0]?.version}: the database lacks migrations of it.`;
}

/** @returns one line for each object that was changed, dropped or added */
function compareObjects(expected: Objects, actual: Objects, { isExact }: { isExact: boolean }): string[] {
  const isGrant = (name: string) => name.startsWith(grantsPrefix);
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])]
    .filter((name) => !isGrant(name))
    .sort();
  const changed = names.filter((name) => name in expected && name in actual && expected[name] !== actual[name]);
  const dropped = names.filter((name) => !(name in actual));
  const extra = names.filter((name) => !(name in expected));
  const isPart = partsOf([...dropped, ...extra]);
  const [before, after] = [listGrants(expected, isPart), listGrants(actual, isPart)];
  return [
    ...(isExact ? changed : []).map((name) => `changed by hand: ${name}. Restore this release's definition.`),
    ...[
      ...dropped.filter((name) => !isPart(name)),
      ...[...before].filter(([grant, isOptional]) => !isOptional && !after.has(grant)).map(([grant]) => grant),
    ].map((name) => `dropped: ${name}. Restore it.`),
    ...[...extra.filter((name) => !isPart(name)), ...[...after.keys()].filter((grant) => !before.has(grant))].map(
      (name) => `extra: ${name}. Remove it, or move it to a schema of your own.`,
    ),
  ];
}

const grantsName = /^grants to (\S+|"[^"]+") on (.+)$/;

/**
 * Splits "grants to <role> on <object>" into one line for each privilege, and whether it is optional: hosted Supabase
 * grants it by default, which a project can switch off.
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
