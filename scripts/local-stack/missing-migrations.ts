import { readFile } from "node:fs/promises";
import path from "node:path";
import { parse } from "libpg-query";
import { withDatabase } from "./database.ts";
import { messageOf, StackError } from "./errors.ts";
import { listMigrations, recordedMigrations } from "./migrations.ts";

type Project = { url: string; secretKey: string; dbUrl: string | undefined };
type Table = { schema: string; table: string };

const requestLimitMs = 15_000;

/**
 * Which migration files a project that is not ours to change still lacks: by its record where the database's URL is
 * known, else by asking its Data API for the tables that each file creates. Applies nothing.
 * @returns names of files, oldest first
 * @throws StackError when the project cannot be asked
 */
export async function findMissingMigrations(directory: string, project: Project): Promise<string[]> {
  const files = await listMigrations(directory);
  if (project.dbUrl) {
    const recorded = new Set(await readRecord(project.dbUrl));
    return files.filter(({ version }) => !recorded.has(version)).map(({ file }) => path.basename(file));
  }
  const missing = await Promise.all(
    files.map(async ({ file }) => {
      const tables = await createdTables(await readFile(file, "utf8"));
      const there = await Promise.all(tables.map((table) => tableExists(project, table)));
      return there.every(Boolean) ? [] : [path.basename(file)];
    }),
  );
  return missing.flat();
}

async function readRecord(dbUrl: string): Promise<string[]> {
  try {
    const recorded = await withDatabase(
      { connectionString: dbUrl, connectionTimeoutMillis: requestLimitMs },
      recordedMigrations,
    );
    return recorded.map(({ version }) => version);
  } catch (error) {
    throw new StackError(
      `The project's database (SUPABASE_DB_URL) does not answer: ${messageOf(error)}\n` +
        "Correct it, or remove it: then the tables are asked for through the Data API.",
    );
  }
}

type CreateTable = { CreateStmt?: { relation?: { schemaname?: string; relname?: string }; partbound?: unknown } };

/** The tables that a migration creates; partitions aside, which the Data API does not show. */
export async function createdTables(sql: string): Promise<Table[]> {
  const { stmts } = (await parse(sql)) as { stmts: { stmt: CreateTable }[] };
  return stmts.flatMap(({ stmt: { CreateStmt: created } }) =>
    created?.relation?.relname && created.partbound === undefined
      ? [{ schema: created.relation.schemaname ?? "public", table: created.relation.relname }]
      : [],
  );
}

/** What says that the name is not known, to PostgREST or to Postgres; any other answer means that it is. */
const unknownTable = ["PGRST205", "42P01"];
const unknownSchema = "PGRST106";

async function tableExists({ url, secretKey }: Project, { schema, table }: Table): Promise<boolean> {
  let response: Response;
  try {
    response = await fetch(`${url}/rest/v1/${table}?limit=0`, {
      headers: { apikey: secretKey, "Accept-Profile": schema },
      signal: AbortSignal.timeout(requestLimitMs),
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause ? error.cause : error;
    throw new StackError(
      `The Supabase project at ${url} does not answer (${messageOf(cause)}). Is SUPABASE_URL right, and does it run?`,
    );
  }
  if (response.status === 401) {
    throw new StackError(`The Supabase project at ${url} refuses the key in SUPABASE_SECRET_KEY.`);
  }
  const code = ((await response.json().catch(() => undefined)) as { code?: string } | undefined)?.code;
  if (code === unknownSchema) {
    throw new StackError(
      `The project's Data API does not serve the schema "${schema}": ` +
        "add public, private and ai to its exposed schemas (Dashboard, Settings, API). If there is no such schema, " +
        "no migration has been applied: npx supabase db push --remote",
    );
  }
  return !unknownTable.includes(code ?? "");
}
