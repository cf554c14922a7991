import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import pg from "pg";
import { type Catalogue, readCatalogue } from "./catalogue.ts";
import { compareCatalogues, type Differences } from "./compare.ts";
import { type Dependants, type FixedDependant, findDependants } from "./dependants.ts";
import { describeFailure, type Failure, runInWorkingOrder } from "./run-statements.ts";
import type { Definition } from "./schema-files.ts";
import type { Wanted } from "./wanted.ts";

type Planned = { current: Catalogue; wanted: Wanted; differences: Differences; schemas: readonly string[] };
type Drop = { key: string; text: string };
type Create = { key: string; text: string; definition: Definition };

/**
 * The errors with which Postgres refuses to replace an existing definition: invalid function definition (changed
 * result, changed parameter name or lost default), invalid table definition (changed column), wrong object type,
 * duplicate.
 */
const notReplaceable = new Set(["42P13", "42P16", "42809", "42710", "42723"]);

/**
 * Plans the statements that bring the migrated database to the wanted state, by running them and then rolling back.
 * Replaces a definition if Postgres allows it; otherwise drops and recreates it along with everything that depends on
 * it.
 * @throws StackError if a table, policy, default or constraint is in the way
 */
export async function planStatements(client: pg.Client, planned: Planned): Promise<string[]> {
  const { current, wanted, differences, schemas } = planned;
  const unreplaceable = new Set<string>();
  const changed = new Map([...current.entries].filter(([key]) => differences.changed.includes(key)));
  const { immovable } = await findDependants(client, changed);
  for (;;) {
    await client.query("begin");
    try {
      const dropped = await chooseDrops(client, { ...planned, unreplaceable });
      const unset = await run(
        client,
        dropped.fixed.map(({ drop }) => drop),
      );
      const drops = await runInWorkingOrder(client, dropStatements(dropped.keys, current));
      refuseDrops(drops.failures);
      const creates = await runInWorkingOrder(client, createStatements(dropped.keys, { wanted, differences }));
      const stuck = creates.failures.filter(
        ({ statement, error }) => isNotReplaceable(error) && !dropped.keys.has(statement.key),
      );
      for (const { statement } of stuck) unreplaceable.add(statement.key);
      if (stuck.length > 0) continue;
      refuseCreates(creates.failures);
      refuseStoredResults(immovable);
      const restored = await restoreFixed(client, dropped.fixed);
      const reached = await readCatalogue(client, schemas);
      const rest = compareCatalogues(reached, wanted, wanted.governs);
      const comments = rest.comments.map(
        (target) => wanted.comments.get(target)?.text ?? `comment on ${target} is null`,
      );
      return [
        ...unset,
        ...texts(drops.done),
        ...texts(triggersLast(creates.done)),
        ...restored,
        ...comments,
        ...rest.grants,
      ];
    } finally {
      await client.query("rollback");
    }
  }
}

function texts(statements: readonly { text: string }[]): string[] {
  return statements.map(({ text }) => text);
}

function isNotReplaceable(error: unknown): boolean {
  return error instanceof pg.DatabaseError && notReplaceable.has(error.code ?? "");
}

type Choice = { keys: Set<string>; fixed: FixedDependant[] };

/**
 * Returns the objects to drop: the ones that are removed or cannot be replaced, and everything that depends on them.
 */
async function chooseDrops(
  client: pg.Client,
  { current, wanted, differences, unreplaceable }: Planned & { unreplaceable: ReadonlySet<string> },
): Promise<Choice> {
  const keys = new Set([...differences.removed, ...unreplaceable]);
  for (;;) {
    const size = keys.size;
    for (const key of keys) {
      const { borrowedBy } = current.entries.get(key) ?? {};
      if (borrowedBy !== undefined) keys.add(borrowedBy);
    }
    const found = await findDependants(client, new Map([...current.entries].filter(([key]) => keys.has(key))));
    for (const key of found.keys) keys.add(key);
    if (keys.size > size) continue;
    refuseDependants(found, wanted);
    return { keys, fixed: found.fixed };
  }
}

function refuseDependants({ fixed, immovable }: Dependants, wanted: Wanted): void {
  const names = new Set([...wanted.entries.keys()].map(withoutArguments));
  const used = fixed.filter(({ uses }) => !names.has(withoutArguments(uses)));
  const lines = [
    ...used.map(
      ({ name, uses, drop }) =>
        `${uses} is not in supabase/schemas/ any more, but ${name} still uses it.\n` +
        `Keep it, or first write a migration by hand that replaces what uses it: ${drop}; …`,
    ),
    ...immovable.map(
      ({ name, uses }) =>
        `${uses} would have to be dropped, and ${name} uses it.\n` +
        "Keep its signature and result, or first write a migration by hand that changes what uses it.",
    ),
  ];
  if (lines.length > 0) throw new StackError(lines.join("\n\n"));
}

function refuseStoredResults(immovable: Dependants["immovable"]): void {
  const lines = immovable.flatMap(({ name, uses, storesResults }) =>
    storesResults
      ? [
          `${uses} is changed, and ${name} stores its results.\n` +
            "Write a migration by hand that replaces the function and computes them again.",
        ]
      : [],
  );
  if (lines.length > 0) throw new StackError(lines.join("\n\n"));
}

function withoutArguments(key: string): string {
  return key.replace(/\(.*$/, "");
}

/**
 * Returns the statements that drop objects. Triggers come first. Functions whose triggers are on another owner's tables
 * come last.
 */
function dropStatements(keys: ReadonlySet<string>, { entries }: Catalogue): Drop[] {
  const borrowing = new Set([...entries.values()].map(({ borrowedBy }) => borrowedBy));
  const rank = (key: string) => (borrowing.has(key) ? 2 : key.startsWith("trigger ") ? 0 : 1);
  return [...keys]
    .filter((key) => entries.get(key)?.borrowedBy === undefined)
    .sort((a, b) => rank(a) - rank(b))
    .map((key) => ({ key, text: `drop ${key}${borrowing.has(key) ? " cascade" : ""}` }));
}

/**
 * Returns the definitions to run, in the order of the files: new definitions, changed definitions, and definitions
 * whose objects were dropped.
 */
function createStatements(
  dropped: ReadonlySet<string>,
  { wanted, differences }: Pick<Planned, "wanted" | "differences">,
): Create[] {
  const due = new Set([...differences.added, ...differences.changed, ...dropped]);
  return [...wanted.definitions]
    .filter(([key]) => due.has(key))
    .map(([key, definition]) => ({ key, text: guarded(definition), definition }));
}

/** Moves triggers to the end, because they block writes to their table until the file is applied. */
function triggersLast(creates: readonly Create[]): Create[] {
  const isTrigger = ({ definition }: Create) => Number(definition.object.kind === "trigger");
  return creates.toSorted((a, b) => isTrigger(a) - isTrigger(b));
}

/**
 * Returns the statement. For a trigger on a Supabase Auth table, adds a check that this version of Auth has the table.
 */
function guarded({ object, text }: Definition): string {
  if (object.kind !== "trigger" || object.schema !== "auth") return text;
  const table = `${object.schema}.${object.table}`;
  return `do $guard$\nbegin\n  if to_regclass('${table}') is not null then\n${text};\n  end if;\nend\n$guard$`;
}

async function run(client: pg.Client, statements: readonly string[]): Promise<string[]> {
  for (const statement of statements) await client.query(statement);
  return [...statements];
}

/** Restores policies, defaults and constraints as they were. */
async function restoreFixed(client: pg.Client, fixed: readonly FixedDependant[]): Promise<string[]> {
  const restored: string[] = [];
  for (const { name, uses, create } of fixed) {
    try {
      restored.push(...(await run(client, create)));
    } catch (error) {
      throw new StackError(
        `${name} uses ${uses} and does not fit its new definition: ${messageOf(error)}\n` +
          "Keep the former definition as well, and write a migration by hand that changes what uses it.",
      );
    }
  }
  return restored;
}

function refuseDrops(failures: readonly Failure<Drop>[]): void {
  if (failures.length === 0) return;
  throw new StackError(failures.map(({ statement, error }) => `${statement.text}: ${messageOf(error)}`).join("\n"));
}

function refuseCreates(failures: readonly Failure<Create>[]): void {
  if (failures.length === 0) return;
  const described = failures.map(({ statement, error }) => describeFailure({ statement: statement.definition, error }));
  throw new StackError(described.join("\n\n"));
}
