import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import type pg from "pg";
import { listSchemas, readCatalogue, readFixedObjects } from "./catalogue.ts";
import { compareCatalogues, describeDifferences } from "./compare.ts";
import { applyMigrations, listMigrations } from "./migrations.ts";
import { planStatements } from "./plan.ts";
import { readSchemaFiles, type SchemaFiles } from "./schema-files.ts";
import { readWanted, type Wanted } from "./wanted.ts";

/**
 * `dbUrl` is the address of a database with Supabase's roles and the schema `auth`. Some or all migrations may be
 * missing from it.
 */
type Layout = { dbUrl: string; migrations: string; schemas: string };

/**
 * Compares the definitions in `schemas/` with the result of the migrations.
 * @returns one line for each difference
 * @throws StackError if a file cannot be read or applied, or has a statement that belongs in a hand-written migration
 */
export async function findDifferences(layout: Layout): Promise<string[]> {
  return withMigrated(layout, async (client, files) => describeDifferences((await compare(client, files)).differences));
}

/**
 * Writes the migration that brings the database in line with `schemas/`. Applies the migration to check its result, and
 * deletes the file if the result is wrong.
 * @returns the file and its changes, or undefined if there are none
 * @throws StackError in the same cases as `findDifferences`, if a change needs a decision about data, or if the
 * migration's result is wrong. In each case, no file is left behind.
 */
export async function generateMigration(
  layout: Layout,
  name: string,
): Promise<{ file: string; changes: string[] } | undefined> {
  if (!/^[a-z0-9]+(?:_[a-z0-9]+)*$/.test(name)) {
    throw new StackError(`"${name}" cannot name a migration. Use lower-case letters, digits and underscores.`);
  }
  return withMigrated(layout, async (client, files) => {
    const { wanted, current, schemas, differences } = await compare(client, files);
    const changes = describeDifferences(differences);
    if (changes.length === 0) return undefined;
    const statements = await planStatements(client, { current, wanted, differences, schemas });
    const file = path.join(layout.migrations, `${await nextVersion(layout.migrations, new Date())}_${name}.sql`);
    await writeFile(file, `${[heading, ...statements.map(terminated), ending].join("\n\n")}\n`, { flag: "wx" });
    try {
      await prove(client, { layout, wanted, schemas });
    } catch (error) {
      await rm(file);
      throw new StackError(
        `The migration would not do what supabase/schemas defines, and was not kept.\n${messageOf(error)}`,
      );
    }
    return { file, changes };
  });
}

/** The first lines of a generated migration. Triggers and policies lock tables in use, so each wait is short. */
export const heading = `-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';`;

/**
 * The last statement of a generated migration. A Data API that does not notice changes by itself reads functions and
 * their arguments again.
 */
export const ending = "notify pgrst, 'reload schema';";

/** Adds a semicolon, on a new line if the statement ends in a comment. */
export function terminated(statement: string): string {
  return /--[^\n]*$/.test(statement) ? `${statement}\n;` : `${statement};`;
}

/** Returns the version of the next migration: the current time, or a second after the newest if that is later. */
export async function nextVersion(migrations: string, at: Date): Promise<string> {
  const newest = (await listMigrations(migrations)).at(-1)?.version ?? "";
  const [year = 0, month = 1, ...rest] = [newest.slice(0, 4), ...(newest.slice(4).match(/../g) ?? [])].map(Number);
  const [day = 1, hour = 0, minute = 0, second = 0] = rest;
  const after = newest === "" ? 0 : Date.UTC(year, month - 1, day, hour, minute, second + 1);
  return new Date(Math.max(at.getTime(), after)).toISOString().replace(/\D/g, "").slice(0, 14);
}

async function withMigrated<T>(
  layout: Layout,
  work: (client: pg.Client, files: SchemaFiles) => Promise<T>,
): Promise<T> {
  const files = await readSchemaFiles(layout.schemas, { version: await nextVersion(layout.migrations, new Date()) });
  await applyMigrations({ dbUrl: layout.dbUrl, directory: layout.migrations });
  return withDatabase(layout.dbUrl, (client) => work(client, files));
}

async function compare(client: pg.Client, files: SchemaFiles) {
  const schemas = await listSchemas(client);
  const current = await readCatalogue(client, schemas);
  const wanted = await readWanted(client, { files, schemas, former: current.entries });
  return { wanted, current, schemas, differences: compareCatalogues(current, wanted, wanted.governs) };
}

/**
 * Applies the new migration. @throws if functions, views, triggers or grants differ from `schemas/`, or if anything
 * else changed
 */
async function prove(
  client: pg.Client,
  { layout, wanted, schemas }: { layout: Layout; wanted: Wanted; schemas: readonly string[] },
): Promise<void> {
  const before = await readFixedObjects(client, schemas);
  await applyMigrations({ dbUrl: layout.dbUrl, directory: layout.migrations });
  const left = compareCatalogues(await readCatalogue(client, schemas), wanted, wanted.governs);
  const lines = describeDifferences(left);
  if (lines.length > 0) throw new Error(lines.join("\n"));
  const after = await readFixedObjects(client, schemas);
  if (!isDeepStrictEqual(before, after)) {
    const changed = [...new Set([...before, ...after])].filter(
      (line) => before.includes(line) !== after.includes(line),
    );
    throw new Error(`It would also change:\n${changed.join("\n")}`);
  }
}
