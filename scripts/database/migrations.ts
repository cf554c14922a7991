import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { codeOf, messageOf, StackError } from "@gatehousehq/local-stack/errors";
import pg from "pg";
import {
  excerpt,
  isJoinOf,
  leadingComments,
  lineAt,
  SqlSyntaxError,
  type Statement,
  splitStatements,
} from "./statements.ts";

/** A migration file, named as in the Supabase CLI: `<14 digits>_<name>.sql`. */
export type MigrationFile = { version: string; name: string; file: string };
type Unparsed = MigrationFile & { sql: string };
type Migration = Unparsed & { statements: Statement[] };
type Recorded = { version: string; statements: string[] | null };

const fileName = /^(\d{14})_(.*)\.sql$/;
const reset = "During development start afresh with the files as they are: npm run reset";
const untouched = "Nothing was changed.";

/**
 * Other queries queue behind a statement that waits for a table lock, so a migration waits only briefly and retries.
 */
const lockTimeoutMs = 500;
const lockAttempts = 20;
const lockPauseMs = 500;
const lockNotAvailable = "55P03";

/** Lists the migrations in `directory`, oldest first. */
export async function listMigrations(directory: string): Promise<MigrationFile[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  return names.map((file) => {
    const [, version, name] = fileName.exec(file) ?? [];
    if (version === undefined || name === undefined) {
      throw new StackError(
        `${path.join(directory, file)} is not a valid migration name. Call it <YYYYMMDDHHMMSS>_<name>.sql`,
      );
    }
    return { version, name, file: path.join(directory, file) };
  });
}

async function readMigration(found: MigrationFile): Promise<Unparsed> {
  return { ...found, sql: await readFile(found.file, "utf8") };
}

async function parseMigration(migration: Unparsed): Promise<Migration> {
  return { ...migration, statements: await readStatements(migration.file, migration.sql) };
}

/** Returns the versions whose files consist of exactly the recorded statements. */
async function findUnchanged(files: readonly Unparsed[], recorded: readonly Recorded[]): Promise<Set<string>> {
  const statementsOf = new Map(recorded.map(({ version, statements }) => [version, statements ?? []]));
  const unchanged = new Set<string>();
  for (const migration of files) {
    const applied = statementsOf.get(migration.version);
    if (applied === undefined) continue;
    // Comparing texts is enough for most files, and parsing them all takes a second.
    const isSame =
      isJoinOf(migration.sql, applied) ||
      isDeepStrictEqual(
        (await parseMigration(migration)).statements.map(({ text }) => text),
        applied,
      );
    if (isSame) unchanged.add(migration.version);
  }
  return unchanged;
}

async function readStatements(file: string, sql: string): Promise<Statement[]> {
  try {
    return await splitStatements(sql);
  } catch (error) {
    if (!(error instanceof SqlSyntaxError)) throw error;
    const line = sql.split("\n")[error.line - 1]?.trim() ?? "";
    throw new StackError(`${relative(file)}, line ${error.line}: ${error.message}\n  ${line}`);
  }
}

/** Returns the migrations recorded as applied, oldest first. The list is empty if the database has no record of any. */
export async function recordedMigrations(client: pg.Client): Promise<Recorded[]> {
  const { rows } = await client.query<{ known: boolean }>(
    "select to_regclass('supabase_migrations.schema_migrations') is not null as known",
  );
  if (!rows[0]?.known) return [];
  const recorded = await client.query<Recorded>(
    "select version, statements from supabase_migrations.schema_migrations order by version",
  );
  return recorded.rows;
}

/** @throws StackError if applying more migrations cannot bring the database to the state of the files */
function findPending(
  files: readonly Unparsed[],
  recorded: readonly Recorded[],
  { firstRelease, unchanged }: { firstRelease: readonly string[]; unchanged: ReadonlySet<string> },
): Unparsed[] {
  const byVersion = new Map(files.map((migration) => [migration.version, migration]));
  const newestFile = files.at(-1)?.version ?? "";
  const firstVersions = firstRelease.map((file) => file.slice(0, 14)).sort();
  const lastOfFirst = firstVersions.at(-1) ?? "";
  const older = recorded.find(
    ({ version }) => version <= lastOfFirst && !(firstVersions.includes(version) && unchanged.has(version)),
  );
  if (older) {
    throw new StackError(
      `This database is from before 0.1.0 (it has another migration ${older.version}) and cannot be upgraded. ${untouched}\nStart afresh: npm run reset`,
    );
  }
  const newer = recorded.filter(({ version }) => version > newestFile);
  if (newer.length > 0) {
    throw new StackError(
      `This database is from a newer release: this version does not have its migration ${newer.map(({ version }) => version).join(", ")}. ${untouched}\n` +
        "Start the newer release, or keep this one's data apart: npm start -- --data-dir <directory>",
    );
  }
  const gone = recorded.filter(({ version }) => !byVersion.has(version));
  if (gone.length > 0) {
    const applied = `${gone[0]?.version}${gone.length > 1 ? ` and ${gone.length - 1} more` : ""}`;
    throw new StackError(
      `This database has applied migration ${applied}, whose file is gone: a release merges unreleased migrations. ${untouched}\n${reset}`,
    );
  }
  for (const one of recorded) {
    const migration = byVersion.get(one.version);
    if (migration && !unchanged.has(one.version)) {
      throw new StackError(`${relative(migration.file)} was changed after it had been applied. ${untouched}\n${reset}`);
    }
  }
  const newest = recorded.at(-1)?.version ?? "";
  const applied = new Set(recorded.map(({ version }) => version));
  const pending = files.filter(({ version }) => !applied.has(version));
  const late = pending.find(({ version }) => version < newest);
  if (late) {
    throw new StackError(
      `${relative(late.file)} is older than ${newest}, which has been applied already. ${untouched}\n` +
        `Give it a later date, or, ${reset.charAt(0).toLowerCase()}${reset.slice(1)}`,
    );
  }
  return pending;
}

/**
 * Applies the unrecorded migrations of `directory`, each in one transaction with its record in
 * `supabase_migrations.schema_migrations`, as the Supabase CLI does. Concurrent callers wait for each other.
 * @param options.firstRelease the names of the migration files in release 0.1.0; a database with other or changed
 * migrations up to that release is refused
 * @returns the files applied
 * @throws StackError with file, line, statement and Postgres's message if a statement fails
 * @throws StackError with advice if the database is older than the first release or newer than the files, if an applied
 * file was changed or removed, or if an unapplied file is older than an applied file
 */
export async function applyMigrations(options: {
  dbUrl: string;
  directory: string;
  firstRelease?: readonly string[];
}): Promise<string[]> {
  const files = await Promise.all((await listMigrations(options.directory)).map(readMigration));
  return withDatabase(connection(options.dbUrl), async (client) => {
    await client.query("select pg_advisory_lock(hashtextextended('gatehouse-migrations', 0))");
    const recorded = await recordedMigrations(client);
    const unchanged = await findUnchanged(files, recorded);
    const unparsed = findPending(files, recorded, { firstRelease: options.firstRelease ?? [], unchanged });
    if (unparsed.length === 0) return [];
    const pending = await Promise.all(unparsed.map(parseMigration));
    await client.query(
      `create schema if not exists supabase_migrations;
       create table if not exists supabase_migrations.schema_migrations
         (version text not null primary key, statements text[], name text)`,
    );
    for (const migration of pending) {
      await applyWhenUnlocked(client, migration, {
        text: "insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $2, $3)",
        values: [migration.version, migration.name, migration.statements.map((statement) => statement.text)],
      });
    }
    return pending.map(({ file }) => path.basename(file));
  });
}

/** Applies a file, and retries while other sessions hold locks that it needs. */
async function applyWhenUnlocked(client: pg.Client, migration: Migration, record: pg.QueryConfig): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.query(`set lock_timeout = ${lockTimeoutMs}`);
      return await applyFile(client, migration, record);
    } catch (error) {
      if (codeOf((error as Error).cause) !== lockNotAvailable || attempt === lockAttempts) throw error;
      await sleep(lockPauseMs);
    }
  }
}

/**
 * Runs a SQL file, such as the seed, in one transaction.
 * @throws StackError with file, line, statement and Postgres's message
 */
export async function applySqlFile(options: { dbUrl: string; file: string }): Promise<void> {
  const sql = await readFile(options.file, "utf8");
  const statements = await readStatements(options.file, sql);
  await withDatabase(connection(options.dbUrl), (client) => applyFile(client, { file: options.file, sql, statements }));
}

async function applyFile(
  client: pg.Client,
  content: Pick<Migration, "file" | "sql" | "statements">,
  record?: pg.QueryConfig,
): Promise<void> {
  await client.query("begin");
  try {
    for (const statement of content.statements) {
      try {
        await client.query(statement.text);
      } catch (error) {
        throw new StackError(describeFailure(content, statement, error), { cause: error });
      }
    }
    if (record) await client.query(record);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  }
  await client.query("reset all");
}

function describeFailure(content: Pick<Migration, "file" | "sql">, statement: Statement, error: unknown): string {
  const database = error instanceof pg.DatabaseError ? error : undefined;
  const within = database?.position
    ? [...statement.text].slice(0, Number(database.position) - 1).join("").length
    : leadingComments(statement.text);
  const indented = excerpt(statement.text)
    .split("\n")
    .map((line) => `  ${line}`);
  return [
    `${relative(content.file)}, line ${lineAt(content.sql, statement.offset + within)}: ${messageOf(error)}${
      database?.code ? ` (SQLSTATE ${database.code})` : ""
    }`,
    ...indented,
    ...(database?.detail ? [`Detail: ${database.detail}`] : []),
    ...(database?.hint ? [`Hint: ${database.hint}`] : []),
    ...(database?.where ? [`Where: ${database.where}`] : []),
    "Nothing of this file has been applied.",
  ].join("\n");
}

function relative(file: string): string {
  return path.relative(process.cwd(), file) || file;
}

function connection(connectionString: string): pg.ClientConfig {
  return { connectionString, application_name: "gatehouse-migrations" };
}
