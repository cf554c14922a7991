import { withDatabase } from "@gatehousehq/local-stack/database";
import { readCheckout } from "../../scripts/database/contents/checkout.ts";
import { expectedObjects } from "../../scripts/database/contents/releases.ts";
import { listMigrations, recordedMigrations } from "../../scripts/database/migrations.ts";
import { checkDatabase } from "../../scripts/operator/doctor/project-checks.ts";
import { writeArchive } from "./archive.ts";
import { authMigrations, listPartitions, listTables, listUnknownRelations, readFigures, schemas } from "./figures.ts";
import {
  formatVersion,
  type Manifest,
  product,
  readServerVersion,
  requireSameRelease,
  requireServerVersion,
} from "./manifest.ts";
import { connectProgram, findPrograms, startProgram } from "./programs.ts";

/**
 * Writes a database's data to an archive.
 * @param options.folder the folder of Postgres's programs to use instead of those in the path
 * @throws StackError if the server, the database or pg_dump has another version than this release needs
 */
export async function backUp(options: { file: string; dbUrl: string; folder: string | undefined }): Promise<Manifest> {
  const { file, dbUrl, folder } = options;
  const { pg_dump } = findPrograms(["pg_dump"], folder);
  const known = (await listMigrations("supabase/migrations")).map(({ version }) => version);
  return withDatabase({ connectionString: dbUrl, application_name: "gatehouse-backup" }, async (client) => {
    const postgres = await readServerVersion(client);
    requireServerVersion(postgres);
    const found = (await recordedMigrations(client)).map(({ version }) => version);
    requireSameRelease("The database", { found, known });
    const doctor = await checkDatabase({ dbUrl });
    const ours = await listKnownTables(known);

    // pg_dump and the figures read one snapshot, so they agree while the product runs.
    await client.query(
      "begin isolation level repeatable read read only;" +
        "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0",
    );
    const { rows } = await client.query<{ snapshot: string }>("select pg_export_snapshot() as snapshot");
    const createdAt = new Date();
    const excluded = await listUnknownRelations(client, ours);
    const tables = (await listTables(client)).filter((table) => !excluded.includes(table));
    const partitions = (await listPartitions(client)).filter(({ parent }) => !excluded.includes(parent));
    const { address, env } = connectProgram(dbUrl);
    const args = [
      ...["--format=custom", `--snapshot=${rows[0]?.snapshot}`, "--load-via-partition-root", "--no-password"],
      ...[...schemas, "supabase_migrations"].map((schema) => `--schema=${schema}`),
      ...[authMigrations, ...excluded].map((relation) => `--exclude-table-and-children=${relation}`),
      `--dbname=${address}`,
    ];
    const { child, done } = startProgram(pg_dump, args, env);
    const counting = readFigures(client, tables);
    counting.catch(() => child.kill());
    const manifest: Manifest = {
      format: formatVersion,
      product,
      createdAt: createdAt.toISOString(),
      postgres,
      migrations: known,
      tables,
      excluded,
      partitions,
      figures: {},
      doctor,
    };
    const describe = async () => {
      await done;
      manifest.figures = await counting;
      return `${JSON.stringify(manifest, null, 2)}\n`;
    };
    try {
      await writeArchive(file, { dump: child.stdout, describe, createdAt });
      return manifest;
    } finally {
      child.kill();
    }
  });
}

async function listKnownTables(migrations: readonly string[]): Promise<Set<string>> {
  const { changes } = await readCheckout(process.cwd(), { objects: {} });
  const objects = Object.keys(expectedObjects(changes, new Set(migrations)));
  return new Set(objects.flatMap((object) => (object.startsWith("table ") ? object.slice("table ".length) : [])));
}
