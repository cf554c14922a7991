import { withDatabase } from "@gatehousehq/local-stack/database";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { z } from "zod";
import { recordedMigrations } from "../migrations.ts";
import { authTriggers } from "./auth-triggers.ts";

type DataApi = { url: string; secretKey: string };
export type Project = { dbUrl: string } | (DataApi & { dbUrl: string | undefined });

const contents = z.object({
  /** Postgres's `server_version_num`. */
  postgres: z.int(),
  /** The versions recorded as applied, oldest first. */
  migrations: z.array(z.string()),
  /** Undefined if the database cannot describe its objects, for example before release 0.1.0. */
  objects: z.record(z.string(), z.string()).optional(),
  /** Undefined if the database cannot describe its triggers on `auth`, for example in release 0.1.0. */
  auth: authTriggers.optional(),
});
export type Contents = z.infer<typeof contents>;

const requestLimitMs = 15_000;
/** Postgres 17, the first version with the features that `private.describe_objects` uses. */
const describable = 170_000;

/**
 * Describes the contents of a project's database. Reads them by the database's URL if known, otherwise through the Data
 * API. Changes nothing.
 * @throws StackError if the project cannot be queried
 */
export async function readContents(project: Project): Promise<Contents> {
  return project.dbUrl || !("url" in project) ? readByUrl(project.dbUrl ?? "") : readByDataApi(project);
}

async function readByUrl(connectionString: string): Promise<Contents> {
  const config = { connectionString, connectionTimeoutMillis: requestLimitMs, query_timeout: requestLimitMs };
  try {
    return await withDatabase(config, async (client) => {
      const [found] = (
        await client.query<{ postgres: number; describes: boolean; lists: boolean }>(
          `select current_setting('server_version_num')::int as postgres,
             to_regprocedure('private.describe_objects()') is not null as describes,
             to_regprocedure('private.describe_auth_triggers()') is not null as lists`,
        )
      ).rows;
      const postgres = found?.postgres ?? 0;
      const migrations = (await recordedMigrations(client)).map(({ version }) => version);
      if (!found?.describes || postgres < describable) return { postgres, migrations };
      const { rows } = await client.query("select private.describe_objects() as objects");
      const triggers = found.lists ? await client.query("select private.describe_auth_triggers() as auth") : undefined;
      return contents.parse({ postgres, migrations, objects: rows[0]?.objects, auth: triggers?.rows[0]?.auth });
    });
  } catch (error) {
    throw new StackError(
      `The project's database (SUPABASE_DB_URL) does not answer: ${messageOf(error)}\n` +
        "Correct it, or remove it: then the database is read through the Data API.",
    );
  }
}

/** PostgREST's error codes, and Postgres's error code for a missing privilege. */
const unknownFunction = "PGRST202";
const unknownSchema = "PGRST106";
const notPermitted = "42501";

async function readByDataApi({ url, secretKey }: DataApi): Promise<Contents> {
  let response: Response;
  try {
    response = await fetch(`${url}/rest/v1/rpc/describe_database`, {
      method: "POST",
      headers: { apikey: secretKey, "content-type": "application/json", "content-profile": "private" },
      body: "{}",
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
  const body: unknown = await response.json().catch(() => undefined);
  if (response.ok) return contents.parse(body);
  const { code, message } = z.object({ code: z.string(), message: z.string() }).partial().catch({}).parse(body);
  if (code === unknownFunction) return { postgres: describable, migrations: [] };
  if (code === unknownSchema) {
    throw new StackError(
      'The project\'s Data API does not serve the schema "private": ' +
        "add public, private and ai to its exposed schemas (Dashboard, Settings, API). If there is no such schema, " +
        "no migration has been applied: npx supabase db push --linked",
    );
  }
  if (code === notPermitted) {
    throw new StackError(
      `The service role may not ask what the database holds (${message}). Grant it again: ` +
        "grant usage on schema private to service_role; " +
        "grant execute on function private.describe_database() to service_role;",
    );
  }
  throw new StackError(
    `The Supabase project at ${url} answered ${response.status} to what its database holds: ${message ?? "no message"}`,
  );
}
