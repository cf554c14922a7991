import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { readArguments } from "../../scripts/help.ts";
import { readConfiguration } from "../../scripts/operator/doctor/configuration.ts";
import type { Finding } from "../../scripts/operator/doctor/finding.ts";
import { backUp } from "./backup.ts";
import { findBookFaults } from "./figures.ts";
import type { Manifest } from "./manifest.ts";
import { requireConnection } from "./programs.ts";
import { restore } from "./restore.ts";

const environment =
  "--env  a file with SUPABASE_DB_URL, such as owner.env; otherwise the environment and .env, or the local stack";

const backupUsage = `npm run gatehouse -- backup --out <file> [--env <file> …]

Writes the data of the database in SUPABASE_DB_URL to one archive: accounts, workspaces, runs and books as they were at
one moment, the rows of each table, the audit of the books, and what the doctor says about the database. Needs pg_dump of
Postgres 17, from the folder in POSTGRES_BIN or from the path (docs/backup.md). Ends with 1 if the database has a fault,
which it prints, or if nothing was written.

--out  the archive, which must not exist yet
${environment}`;

const restoreUsage = `npm run gatehouse -- restore <file> [--env <file> …]

Loads an archive into the empty database in SUPABASE_DB_URL, that of a new Supabase project or stack. Applies the
migrations first if it has none. Loads in one transaction, and commits only if the rows of each table and the audit of
the books equal the archive's. Needs pg_restore and psql of Postgres 17, from the folder in POSTGRES_BIN or from the
path (docs/backup.md).

${environment}`;

const env = { type: "string", multiple: true } as const;

/** `npm run gatehouse -- backup …` */
export async function runBackup(): Promise<void> {
  const { values } = readArguments(backupUsage, { options: { out: { type: "string" }, env } });
  const { out: file } = values;
  if (!file) return refuse(`Name the archive: --out <file>\n\n${backupUsage}`);
  await run(async () => reportBackup(file, await backUp({ file, ...(await readSettings(values.env)) })));
}

/** `npm run gatehouse -- restore …` */
export async function runRestore(): Promise<void> {
  const { values, positionals } = readArguments(restoreUsage, { options: { env }, allowPositionals: true });
  const [file, ...others] = positionals;
  if (!file || others.length > 0) return refuse(`Name one archive.\n\n${restoreUsage}`);
  await run(async () => reportRestore(await restore({ file, ...(await readSettings(values.env)) })));
}

function refuse(message: string): void {
  console.error(message);
  process.exitCode = 2;
}

async function run(command: () => Promise<void>): Promise<void> {
  try {
    await command();
  } catch (error) {
    console.error(messageOf(error));
    process.exitCode = 1;
  }
}

/** Returns the address of a database that answers, and the folder of Postgres's programs. */
async function readSettings(files: readonly string[] | undefined) {
  const isInEnvironment = files === undefined && process.env.SUPABASE_DB_URL;
  const { settings } = isInEnvironment ? { settings: process.env } : readConfiguration(files);
  const { SUPABASE_DB_URL: dbUrl = "" } = settings;
  if (!URL.canParse(dbUrl)) {
    throw new StackError(
      `SUPABASE_DB_URL is ${dbUrl ? "not an address" : "not set"}. Set postgres://postgres:<password>@<host>:5432/postgres (docs/deploying.md, "Database addresses").`,
    );
  }
  await requireConnection(dbUrl);
  return { dbUrl, folder: settings.POSTGRES_BIN || process.env.POSTGRES_BIN || undefined };
}

const books = ({ figures }: Manifest) => `balance ${figures["books: balance"]}, ledger ${figures["books: ledger"]}`;
const format = ({ about, says }: Pick<Finding, "about" | "says">) => `${about}: ${says}`;

function reportBackup(file: string, manifest: Manifest): void {
  const { tables, excluded, figures, doctor } = manifest;
  const faults = [
    ...doctor.flatMap((finding) =>
      finding.level === "fail" ? [`${format(finding)} A restore creates only what the migrations create.`] : [],
    ),
    ...(excluded.length > 0 ? [`not in the archive, since no migration creates it: ${excluded.join(", ")}`] : []),
    ...findBookFaults(figures).map((fault) => `books: ${fault}`),
  ];
  for (const fault of faults) console.error(`FAIL  ${fault}`);
  if (faults.length > 0) process.exitCode = 1;
  const rows = tables.reduce((sum, table) => sum + Number(figures[`rows of ${table}`]), 0);
  console.log(
    `Wrote ${file}: ${rows} rows of ${tables.length} tables; ${books(manifest)}.\n` +
      "It has password hashes and personal data, so encrypt it. It lacks the secrets of your settings: keep them too.",
  );
}

function reportRestore({ manifest, doctor }: { manifest: Manifest; doctor: Finding[] }): void {
  const before = new Set(manifest.doctor.map(format));
  const changed = doctor.filter((finding) => !before.has(format(finding)));
  for (const fault of findBookFaults(manifest.figures)) console.error(`FAIL  books, as before the backup: ${fault}`);
  console.log(
    `Restored the backup of ${manifest.createdAt}: the rows of ${manifest.tables.length} tables and the audit of the books are equal; ${books(manifest)}.\n` +
      (changed.length === 0
        ? "The doctor says the same about the database."
        : `The doctor says now about the database:\n${changed.map(format).join("\n")}`) +
      "\nNow set the password of role gateway, and run npm run doctor (docs/backup.md).",
  );
  if (doctor.some(({ level }) => level === "fail")) process.exitCode = 1;
}
