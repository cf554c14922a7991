import { existsSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { liveRun, takeDataDir } from "@gatehousehq/local-stack/runner/run-record";
import { reachableDataDir } from "@gatehousehq/local-stack/services/postgres/placement";
import { readArguments } from "../help.ts";

const usage = `npm run reset [-- --data-dir <folder>]

Deletes everything that the stack stores. The next start begins with an empty database.`;

/** The files that the stack creates in its data directory. Other files are kept. */
const ours =
  /^(logs|mail|compile-cache|snapshots|postgres(-identity-bin)?(\.new|\.password)?|(run|stack|secrets)\.json(\.new)?|test-.+)$/;

function refuseIfRunning(dataDir: string): void {
  const live = liveRun(dataDir);
  if (!live) return;
  throw new StackError(
    `The stack is running on ${dataDir}: process ${live.pid}, ${live.url}\nStop it first: Ctrl-C there, or kill ${live.pid}`,
  );
}

function remove(dataDir: string): void {
  for (const name of readdirSync(dataDir)) {
    if (!ours.test(name)) continue;
    const full = path.join(dataDir, name);
    if (name.startsWith("test-")) remove(full);
    if (/^(postgres|snapshots)/.test(name))
      rmSync(path.dirname(reachableDataDir(full)), { recursive: true, force: true });
    rmSync(full, { recursive: true, force: true });
  }
}

try {
  const { values } = readArguments(usage, { options: { "data-dir": { type: "string", default: ".local" } } });
  const dataDir = path.resolve(values["data-dir"]);
  if (existsSync(dataDir)) {
    refuseIfRunning(dataDir);
    for (const name of readdirSync(dataDir)) {
      if (name.startsWith("test-")) refuseIfRunning(path.join(dataDir, name));
    }
    const record = await takeDataDir({ dataDir, onLeftover: () => undefined });
    remove(dataDir);
    record.remove();
  }
  process.stdout.write(`What the stack kept in ${dataDir} is gone. The next start begins afresh.\n`);
} catch (error) {
  process.stderr.write(`${error instanceof StackError ? error.message : `Nothing was reset: ${messageOf(error)}`}\n`);
  process.exitCode = 1;
}
