import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import pg from "pg";
import { applyMigrations, listMigrations, recordedMigrations } from "../../scripts/database/migrations.ts";
import type { Finding } from "../../scripts/operator/doctor/finding.ts";
import { checkDatabase } from "../../scripts/operator/doctor/project-checks.ts";
import { readArchive } from "./archive.ts";
import { figuresSql, initialised, listTables, schemas } from "./figures.ts";
import {
  type Manifest,
  parseManifest,
  readServerVersion,
  requireSameRelease,
  requireServerVersion,
} from "./manifest.ts";
import { connectProgram, findPrograms, nothingChanged, startProgram } from "./programs.ts";

/**
 * Loads an archive into an empty database.
 * @param options.folder the folder of Postgres's programs to use instead of those in the path
 * @returns the archive's manifest, and what the doctor says about the restored database
 * @throws StackError if the archive, the programs or the database are not as required, or the load was rolled back
 */
export async function restore(options: {
  file: string;
  dbUrl: string;
  folder: string | undefined;
}): Promise<{ manifest: Manifest; doctor: Finding[] }> {
  const { file, dbUrl, folder } = options;
  const programs = findPrograms(["pg_restore", "psql"], folder);
  const { manifest: text, dump } = await readArchive(file);
  const manifest = parseManifest(file, text);
  const known = (await listMigrations("supabase/migrations")).map(({ version }) => version);
  requireSameRelease("The archive", { found: manifest.migrations, known, release: manifest.product });
  requireServerVersion(manifest.postgres);

  const isMigrated = await withDatabase(dbUrl, async (client) => {
    requireServerVersion(await readServerVersion(client));
    const found = (await recordedMigrations(client)).map(({ version }) => version);
    if (found.length > 0) requireSameRelease("The database", { found, known });
    await requireEmpty(client);
    return found.length > 0;
  });
  if (!isMigrated) {
    await applyMigrations({ dbUrl, directory: "supabase/migrations" });
  }
  const state = isMigrated ? nothingChanged : "The migrations were applied. The database has no rows.";
  // A column that the archive's database had in addition can be created before the restore.
  const isOfArchive = ({ says }: Finding) => manifest.doctor.some((finding) => finding.says === says);
  const unlike = (await checkDatabase({ dbUrl })).filter(
    (finding) => finding.level === "fail" && !isOfArchive(finding),
  );
  if (unlike.length > 0) {
    throw new StackError(`The database is not what the migrations create. ${state}\n${unlike.map(format).join("\n")}`);
  }
  try {
    await load({ programs, dbUrl, file, dump, manifest });
  } catch (error) {
    throw new StackError(
      `The load failed and was rolled back: no row was restored. Correct the cause, and restore again.\n${explain(messageOf(error))}`,
    );
  }
  return { manifest, doctor: await checkDatabase({ dbUrl }) };
}

/** @throws StackError naming the tables that have rows */
async function requireEmpty(client: pg.Client): Promise<void> {
  const tables = (await listTables(client)).filter((table) => !initialised.includes(table));
  if (!tables.some((table) => table.startsWith("auth."))) {
    throw new StackError(
      `Supabase Auth has not created its tables in this database: start it first. ${nothingChanged}`,
    );
  }
  const checks = tables.map((table) => `select ${pg.escapeLiteral(table)} as name where exists (select from ${table})`);
  const { rows } = await client.query<{ name: string }>(checks.join(" union all "));
  if (rows.length === 0) return;
  throw new StackError(
    `The database is not empty: ${rows.map(({ name }) => name).join(", ")}. ${nothingChanged} Restore into a new one.`,
  );
}

/** Loads the rows and compares the figures in one transaction, which psql commits only if everything before succeeded. */
async function load(options: {
  programs: { pg_restore: string; psql: string };
  dbUrl: string;
  file: string;
  dump: { start: number; end: number };
  manifest: Manifest;
}): Promise<void> {
  const { programs, dbUrl, file, dump, manifest } = options;
  const { address, env } = connectProgram(dbUrl);
  const quiet = ["--no-psqlrc", "--quiet", "--no-password", "--output=/dev/null", "--set=ON_ERROR_STOP=1"];
  const loader = startProgram(programs.psql, [...quiet, `--dbname=${address}`, "--file=-"], env);
  const only = schemas.map((schema) => `--schema=${schema}`);
  const reader = startProgram(programs.pg_restore, ["--data-only", "--no-owner", ...only, "--file=-"], env);
  const fromArchive = createReadStream(file, { start: dump.start, end: dump.end - 1 });
  loader.child.stdin.write(prepareSql(manifest));
  try {
    await Promise.all([
      // pg_restore stops reading after the last table's data.
      pipeline(fromArchive, reader.child.stdin).catch(() => undefined),
      pipeline(reader.child.stdout, loader.child.stdin, { end: false }),
      reader.done,
    ]);
    loader.child.stdin.end(`${compareSql(manifest)}\ncommit;\n`);
  } catch (error) {
    // Without the commit, psql's connection ends and Postgres rolls back.
    reader.child.kill();
    loader.child.stdin.destroy();
    await loader.done;
    throw error;
  }
  await loader.done;
}

/** As Supabase documents for restores, triggers and foreign keys stay off: https://supabase.com/docs/guides/platform/migrating-within-supabase/backup-restore */
function prepareSql({ partitions }: Manifest): string {
  const creations = partitions
    .filter(({ bounds }) => bounds !== "DEFAULT")
    .map(({ name, parent, bounds, options }) => {
      const storage = options ? ` with (${options})` : "";
      const create = `create table ${name} partition of ${parent} ${bounds}${storage}`;
      const literal = pg.escapeLiteral(name);
      return `if to_regclass(${literal}) is null then ${create}; perform ai.protect_partition(${literal}); end if;`;
    });
  return [
    "begin;",
    "set session_replication_role = replica;",
    `truncate ${initialised.join(", ")};`,
    doBlock(`begin\n${creations.join("\n")}\nend`),
    "",
  ].join("\n");
}

/** Ends the transaction with an error that lists what differs. */
function compareSql({ tables, figures }: Manifest): string {
  return doBlock(`
declare
  differences text;
begin
  select string_agg(format('%s: %s in the archive, %s restored', figure, a.value, r.value), e'\\n' order by figure)
  into differences
  from jsonb_each_text(${pg.escapeLiteral(JSON.stringify(figures))}) as a (figure, value)
  full join (${figuresSql(tables)}) as r using (figure)
  where a.value is distinct from r.value;
  if differences is not null then
    raise exception e'The restored rows differ from the archive:\\n%', differences;
  end if;
end`);
}

/**
 * Returns a statement that runs PL/pgSQL. A literal, unlike text between dollar quotes, cannot be ended by a manifest,
 * after which psql would run its commands.
 */
function doBlock(code: string): string {
  return `do ${pg.escapeLiteral(code)};`;
}

function explain(message: string): string {
  return message.includes('permission denied to set parameter "session_replication_role"')
    ? `${message}\nAllow it as the cluster's superuser (supabase_admin): grant set on parameter session_replication_role to postgres;`
    : message;
}

const format = ({ about, says }: Pick<Finding, "about" | "says">) => `${about}: ${says}`;
