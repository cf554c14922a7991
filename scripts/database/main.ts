import path from "node:path";
import { parseArgs } from "node:util";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { findDifferences, generateMigration } from "./generate.ts";
import { type ScratchCluster, startScratchCluster } from "./scratch-cluster.ts";

const usage = `npm run generate -- migration <name>   write the next migration from supabase/schemas
npm run generate -- migration --check  list what differs; exit code 1 where something does`;

const agree = "supabase/schemas and supabase/migrations agree.";

try {
  const { values, positionals } = parseArgs({
    options: { check: { type: "boolean" }, help: { type: "boolean", short: "h" } },
    allowPositionals: true,
  });
  const [name, ...others] = positionals;
  const isComplete = values.check === true ? name === undefined : name !== undefined && others.length === 0;
  if (values.help) console.log(usage);
  else if (!isComplete) throw new StackError(usage);
  else await run(name);
} catch (error) {
  console.error(error instanceof StackError ? error.message : `Nothing was written: ${messageOf(error)}`);
  process.exitCode = 1;
}

async function run(name: string | undefined): Promise<void> {
  let starting: Promise<ScratchCluster> | undefined;
  // Handlers must exist before anything is created: without a handler, a signal would leave files and processes behind.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    // Stopping the database makes the command fail and clean up, even while the database is still starting.
    process.once(signal, () => void starting?.then((cluster) => cluster.stop()).catch(() => undefined));
  }
  starting = startScratchCluster();
  const cluster = await starting;
  try {
    const layout = {
      dbUrl: await cluster.createDatabase({ migrated: true }),
      migrations: path.resolve("supabase/migrations"),
      schemas: path.resolve("supabase/schemas"),
    };
    if (name === undefined) await check(layout);
    else await write(layout, name);
  } finally {
    await cluster.stop();
  }
}

async function check(layout: Parameters<typeof findDifferences>[0]): Promise<void> {
  const lines = await findDifferences(layout);
  if (lines.length === 0) return console.log(agree);
  console.error(`${lines.join("\n")}\n\nsupabase/schemas differs: npm run generate -- migration <name>`);
  process.exitCode = 1;
}

async function write(layout: Parameters<typeof findDifferences>[0], name: string): Promise<void> {
  const written = await generateMigration(layout, name);
  if (!written) return console.log(`${agree} Nothing to write.`);
  console.log(
    `${written.changes.join("\n")}\n\nWrote ${path.relative(process.cwd(), written.file)}. Read it before you commit it.`,
  );
}
