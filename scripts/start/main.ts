import path from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import type { RunRecord } from "@gatehousehq/local-stack/runner/run-record";
import { renderTable } from "./description.ts";
import { planEmbedded } from "./embedded.ts";
import { readEnvironment } from "./environment.ts";
import { planHosted, withSupabaseStatus } from "./hosted.ts";
import { onStopRequest } from "./lifecycle.ts";
import { readOptions, usage } from "./options.ts";
import { createStack, openDataDir, type Stack } from "./stack.ts";

const root = path.resolve(fileURLToPath(new URL("../..", import.meta.url)));

let stack: Stack | undefined;
let record: RunRecord | undefined;
let ending: Promise<void> | undefined;

/** Stops what is running and ends this process. A repeated call changes neither the exit code nor the message. */
function end(exitCode: number, message?: string): Promise<void> {
  ending ??= (async () => {
    if (message) process.stderr.write(`\n${message}\n`);
    await stack?.stop().catch((error: unknown) => process.stderr.write(`${messageOf(error)}\n`));
    record?.remove();
    process.exit(exitCode);
  })();
  return ending;
}

function describeError(error: unknown): string {
  if (error instanceof StackError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

// Write errors are ignored, since the stack must not stop when the reader of our output exits.
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);
process.on("uncaughtException", (error) => void end(1, describeError(error)));

try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  const terminal = options.json ? process.stderr : process.stdout;
  onStopRequest({
    stop: (why) => {
      terminal.write(`\n${why}: stopping. Once more to force it.\n`);
      void end(0);
    },
    force: () => {
      stack?.kill();
      process.exit(1);
    },
  });
  const given = readEnvironment(root, options);
  const environment = options.supabase ? withSupabaseStatus(root, given) : given;
  const start = { root, options, environment, terminal, onGiveUp: (error: Error) => void end(1, describeError(error)) };
  const opened = await openDataDir(start);
  record = opened.record;
  const planner = await (environment.settings.SUPABASE_URL ? planHosted : planEmbedded)(start, opened);
  stack = createStack(start, opened, planner);
  const description = await stack.start();
  if (description) {
    process.stdout.write(
      options.json ? `${JSON.stringify(description, null, 2)}\n` : renderTable(description, process.stdout),
    );
  }
} catch (error) {
  await end(1, describeError(error));
}
