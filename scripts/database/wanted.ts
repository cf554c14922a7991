import { codeOf, messageOf, StackError } from "@gatehousehq/local-stack/errors";
import type pg from "pg";
import { findUnknownNames } from "./body-names.ts";
import { type Catalogue, type Entries, formerPrefix, readCatalogue, withQualifiedNames } from "./catalogue.ts";
import { type Grant, governedKinds, grantChanges, readGrants, readInitialGrants } from "./grants.ts";
import { describeFailure, type Failure, runInWorkingOrder } from "./run-statements.ts";
import {
  type Comment,
  type Definition,
  type ObjectName,
  placeOf,
  type SchemaFiles,
  type Source,
} from "./schema-files.ts";

/**
 * The definitions in `supabase/schemas/` as Postgres describes them, with the source text of each object and comment.
 */
export type Wanted = Catalogue & {
  definitions: ReadonlyMap<string, Definition>;
  comments: ReadonlyMap<string, Comment>;
  /** Whether `grants.sql` decides the privileges on objects of this kind. */
  governs: (grant: Grant) => boolean;
};

const shownFailures = 10;

/**
 * Creates everything in `supabase/schemas/` in a migrated database, reads the result, and rolls back. Moves previous
 * definitions to other schemas first, so that nothing new can refer to them.
 * @throws StackError with file and line if a statement fails, an object is defined twice, or a PL/pgSQL body names
 * something that does not exist
 */
export async function readWanted(
  client: pg.Client,
  { files, schemas, former }: { files: SchemaFiles; schemas: readonly string[]; former: Entries },
): Promise<Wanted> {
  await client.query("begin");
  try {
    await moveAway(client, former);
    const { failures } = await runInWorkingOrder(client, files.definitions);
    refuseFailures(failures);
    refuseFailures((await runInWorkingOrder(client, files.comments)).failures);
    const governs = await applyGrants(client, { files, schemas });
    const catalogue = await readCatalogue(client, schemas);
    const sources = await matchSources(client, files, catalogue.entries);
    const unknown = await findUnknownNames(client, files.definitions);
    if (unknown.length > 0) throw new StackError(unknown.join("\n"));
    return { ...catalogue, ...sources, governs };
  } finally {
    await client.query("rollback");
  }
}

/** Moves previous definitions to other schemas. Policies, defaults and constraints continue to use them. */
async function moveAway(client: pg.Client, former: Entries): Promise<void> {
  const [triggers, others] = [true, false].map((are) =>
    [...former].filter(([key]) => key.startsWith("trigger ") === are),
  );
  for (const [key, { borrowedBy }] of triggers ?? []) {
    if (borrowedBy === undefined) await client.query(`drop ${key}`);
  }
  const moved = new Set<string>();
  for (const [key] of others ?? []) {
    const schema = /^\w+ ("(?:[^"]|"")+"|\w+)\./.exec(key)?.[1]?.replaceAll('"', "") ?? "";
    const target = client.escapeIdentifier(`${formerPrefix}${schema}`);
    if (!moved.has(target)) await client.query(`create schema ${target}`);
    moved.add(target);
    await client.query(`alter ${key} set schema ${target}`);
  }
}

function refuseFailures(failures: readonly Failure<Source>[]): void {
  if (failures.length === 0) return;
  const rest = failures.length - shownFailures;
  // Puts failures about missing functions last, since a function may be missing because its own definition failed.
  const causesFirst = failures.toSorted((a, b) => Number(isUnknownFunction(a)) - Number(isUnknownFunction(b)));
  throw new StackError(
    [
      ...causesFirst.slice(0, shownFailures).map(describeFailure),
      ...(rest > 0 ? [`and ${rest} more, which may follow from these`] : []),
    ].join("\n\n"),
  );
}

function isUnknownFunction({ error }: Failure<Source>): boolean {
  return codeOf(error) === "42883" && messageOf(error).startsWith("function ");
}

/** Resets the objects that `grants.sql` governs to their initial privileges, then runs its statements in order. */
async function applyGrants(
  client: pg.Client,
  { files, schemas }: { files: SchemaFiles; schemas: readonly string[] },
): Promise<(grant: Grant) => boolean> {
  const views = new Set(files.definitions.map(({ object }) => `${object.schema}.${object.name}`));
  const kinds = governedKinds(
    files.grants.map(({ grant }) => grant),
    (table) => views.has(table),
  );
  const governs = ({ kind }: Grant) => kinds.has(kind);
  const [actual, initial] = await withQualifiedNames(client, async () => [
    await readGrants(client, schemas),
    await readInitialGrants(client, schemas),
  ]);
  for (const statement of grantChanges((actual ?? []).filter(governs), (initial ?? []).filter(governs))) {
    await client.query(statement);
  }
  for (const statement of files.grants) {
    const { failures } = await runInWorkingOrder(client, [statement]);
    refuseFailures(failures);
  }
  return governs;
}

/** Finds the object that each statement of the files defines. */
async function matchSources(
  client: pg.Client,
  files: SchemaFiles,
  entries: Entries,
): Promise<Pick<Wanted, "definitions" | "comments">> {
  const byOid = new Map([...entries].map(([key, { oid }]) => [`${kindOf(key)} ${oid}`, key]));
  const definitions = new Map<string, Definition>();
  const comments = new Map<string, Comment>();
  for (const definition of files.definitions) {
    const key = byOid.get(await resolve(client, definition.object));
    if (key === undefined) throw new StackError(`${placeOf(definition)}: write the types of its arguments in full.`);
    const first = definitions.get(key);
    if (first) throw new StackError(`${placeOf(definition)}: ${key} is already defined in ${placeOf(first)}.`);
    definitions.set(key, definition);
  }
  for (const comment of files.comments) {
    const key = byOid.get(await resolve(client, comment.object));
    if (key === undefined || !definitions.has(key)) {
      throw new StackError(
        `${placeOf(comment)}: this comment is about no view that supabase/schemas/ defines.\n` +
          "Comments on tables and their columns belong in the migration that creates them.",
      );
    }
    const { column } = comment.object;
    const target =
      column === undefined ? key : key.replace(/^view /, "column ").concat(`.${await quoted(client, column)}`);
    comments.set(target, comment);
  }
  return { definitions, comments };
}

function kindOf(key: string): string {
  const [word = ""] = key.split(" ");
  return word === "procedure" ? "function" : word;
}

/** @returns the object's kind and oid */
async function resolve(client: pg.Client, object: ObjectName): Promise<string> {
  const { rows } = await (object.kind === "function"
    ? client.query<{ oid: number }>("select to_regprocedure($1)::oid::int as oid", [object.signature])
    : object.kind === "view"
      ? client.query<{ oid: number }>("select to_regclass(format('%I.%I', $1::text, $2::text))::oid::int as oid", [
          object.schema,
          object.name,
        ])
      : client.query<{ oid: number }>(
          `select oid::int from pg_trigger
           where tgrelid = to_regclass(format('%I.%I', $1::text, $2::text)) and tgname = $3 and not tgisinternal`,
          [object.schema, object.table, object.name],
        ));
  return `${object.kind} ${rows[0]?.oid}`;
}

async function quoted(client: pg.Client, name: string): Promise<string> {
  const { rows } = await client.query<{ name: string }>("select quote_ident($1) as name", [name]);
  return rows[0]?.name ?? name;
}
