import { existsSync, readFileSync, statSync } from "node:fs";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";
import { readArguments } from "../../scripts/help.ts";
import { createProgress } from "../../scripts/load/progress.ts";
import { operatorProject } from "../../scripts/operator/project.ts";
import { readAuth0Hash, readAuth0User } from "./auth0.ts";
import { clerkColumns, readClerkUser } from "./clerk.ts";
import { readFirebaseRow, readFirebaseUser, readHashParameters } from "./firebase.ts";
import { type FileUser, importUsers, parseRecords } from "./import-users.ts";
import { readCsvRows, readJsonLines, readUserList } from "./read-records.ts";
import { openReport } from "./report.ts";
import { type Provider, providers } from "./source-user.ts";

const usage = `npm run gatehouse -- import-users --from auth0 <users.json> [--hashes <hashes.json>]
npm run gatehouse -- import-users --from clerk <users.csv>
npm run gatehouse -- import-users --from firebase <users.json|users.csv> --hash-config <file>
  [--without-password] [--report <file>]

Creates an account for each user of an export, with the old password. Existing accounts stay as they are, so
the command can be repeated. Ends with 1 if a user was not taken.

--hashes            Auth0's export of password hashes, which its support creates
--hash-config       a file with the password hash parameters of the Firebase console, which include the signer key
--without-password  also creates users who have no password, or one with a hash that cannot be verified
--report            where to write what became of each user, import-users-<provider>-<time>.jsonl by default`;

const callTimeoutMs = 30_000;

const { values, positionals } = readArguments(usage, {
  allowPositionals: true,
  options: {
    from: { type: "string" },
    hashes: { type: "string" },
    "hash-config": { type: "string" },
    "without-password": { type: "boolean", default: false },
    report: { type: "string" },
  },
});
const [file, ...more] = positionals;
const provider = providers.find((name) => name === values.from);
if (!provider) refuse("--from must be auth0, clerk or firebase.");
if (!file || more.length > 0) refuse("Name one file of users.");
if (values.hashes && provider !== "auth0") refuse("--hashes is for auth0 only.");
if (values["hash-config"] && provider !== "firebase") refuse("--hash-config is for firebase only.");
if (!values["hash-config"] && provider === "firebase") refuse("Firebase's users need --hash-config.");

try {
  const report = await run(provider, file);
  process.exitCode = report.outcomes.not_taken > 0 ? 1 : 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

function refuse(fault: string): never {
  console.error(`${fault}\n\n${usage}`);
  process.exit(2);
}

async function run(from: Provider, path: string) {
  for (const input of [path, values.hashes, values["hash-config"]])
    if (input !== undefined && !existsSync(input)) throw new Error(`There is no file ${input}.`);
  const openUsers = await prepareReader(from, path);
  const { url, secretKey } = operatorProject();
  const client = createClient(url, secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: { fetch: (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(callTimeoutMs) }) },
  });
  const admit = await prepareAdmission(client);
  const time = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const reportPath = values.report ?? `import-users-${from}-${time}.jsonl`;
  if (existsSync(reportPath)) throw new Error(`${reportPath} exists. Name another file with --report, or move it.`);
  const report = openReport(reportPath);
  await report.opened;
  try {
    await importUsers(openUsers, {
      provider: from,
      backend: client.auth.admin,
      report,
      withoutPassword: values["without-password"],
      ...(admit && { admit }),
    });
  } finally {
    await report.close();
    console.log(report.summary());
  }
  return report;
}

/**
 * Returns a function that lets the database accept an email while sign-up is by invitation; null if sign-up is open.
 * @throws Error if the database doesn't answer
 */
async function prepareAdmission(
  client: Pick<SupabaseClient, "schema">,
): Promise<((email: string) => Promise<void>) | null> {
  const call = async (name: string, args: object) => {
    const { data, error } = await client.schema("private").rpc(name, args);
    if (error) throw new Error(`The database refused private.${name}: ${error.code}. Is it up to date?`);
    return data as unknown;
  };
  const { open } = z.object({ open: z.boolean() }).parse(await call("read_sign_up", {}));
  if (open) return null;
  return async (email) => {
    await call("admit_imported_account", { account_email: email });
  };
}

/** Returns a function that reads the file's users from its beginning. */
async function prepareReader(from: Provider, path: string): Promise<() => AsyncIterable<FileUser>> {
  const total = statSync(path).size;
  const options = () => ({ onBytes: showProgress(`${path}: bytes`, total) });
  switch (from) {
    case "auth0": {
      const { hashes, faults } = await readHashes(values.hashes);
      return async function* () {
        yield* faults;
        yield* parseRecords(readJsonLines(path, options()), (line) => readAuth0User(line, hashes));
      };
    }
    case "clerk":
      return () => parseRecords(readCsvRows(path, { columns: clerkColumns, ...options() }), readClerkUser);
    case "firebase": {
      const parameters = readHashParameters(readFileSync(values["hash-config"] ?? "", "utf8"));
      if (/\.csv$/i.test(path)) {
        return () => parseRecords(readCsvRows(path, options()), (row) => readFirebaseRow(row as string[], parameters));
      }
      return () => parseRecords(readUserList(path, options()), (user) => readFirebaseUser(user, parameters));
    }
  }
}

/** Reads Auth0's hashes, by the id of their user, and the lines that cannot be read. */
async function readHashes(path: string | undefined) {
  const hashes = new Map<string, string>();
  const faults: FileUser[] = [];
  const records = path === undefined ? [] : parseRecords(readJsonLines(path), readAuth0Hash);
  for await (const record of records) {
    if ("fault" in record) faults.push(record);
    else hashes.set(record.value.userId, record.value.hash);
  }
  return { hashes, faults };
}

function showProgress(label: string, total: number): (count: number) => void {
  const show = createProgress({ label, total }, process.stderr);
  let done = 0;
  return (count) => {
    done += count;
    show(done);
  };
}
