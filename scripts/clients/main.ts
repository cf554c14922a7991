import { styleText } from "node:util";
import { readStackFile } from "../test/stack.ts";
import { startStack } from "../test/start-stack.ts";
import { type Check, refusals, requiredChecks } from "./checks.ts";
import { clients, versionOf } from "./clients.ts";
import { install, missingCommand } from "./install.ts";
import { runProgram } from "./program.ts";
import { createRecorder } from "./recorder.ts";

/**
 * `npm run test:clients -- [client …]`: runs published clients, unmodified, against the stack that GATEHOUSE_STACK
 * names, or one of its own. Each chats, returns a tool's result, reads streams and sends its own history back, with a
 * plain model and with one whose messages have provider-specific members. Clients are installed once below
 * `.local/clients/`. The exit code is 1 if a check failed or none ran.
 */
const models = ["demo-chat", "demo-reasoning"];

const names = process.argv.slice(2);
const unknown = names.filter((name) => !clients.some((client) => client.name === name));
if (unknown.length > 0) {
  console.error(`There is no client ${unknown.join(", ")}. Clients: ${clients.map(({ name }) => name).join(", ")}`);
  process.exit(1);
}

type Row = { name: string; version: string; passed: number; failed: number; skipped?: string };

function count(row: Row, { name, ok, error }: Check): void {
  if (ok) row.passed += 1;
  else row.failed += 1;
  console.log(`${ok ? styleText("green", "passed") : styleText("red", "failed")}  ${name}`);
  if (!ok && error) console.log(error.trim().replace(/^/gm, "        "));
}

const own = process.env.GATEHOUSE_STACK ? undefined : await startStack();
const rows: Row[] = [];
try {
  const stack = readStackFile(own?.file ?? (process.env.GATEHOUSE_STACK as string));
  const recorder = await createRecorder(new URL(stack.ai));
  for (const client of clients) {
    if (names.length > 0 && !names.includes(client.name)) continue;
    const row: Row = { name: client.name, version: versionOf(client), passed: 0, failed: 0 };
    rows.push(row);
    console.log(`\n── ${row.name} ${row.version}`);
    const missing = missingCommand(client);
    if (missing) {
      row.skipped = `${missing} is not installed`;
      console.log(`${row.skipped}: skipped`);
      continue;
    }
    try {
      const installed = install(client);
      for (const model of models) {
        const checks = await runProgram(installed, { model, baseURL: `${recorder.url}/v1`, apiKey: stack.aiKey });
        const exchanges = recorder.take();
        for (const check of [...checks, ...requiredChecks(exchanges)]) {
          count(row, { ...check, name: `${model}: ${check.name}` });
        }
        for (const refusal of refusals(exchanges)) console.log(`refused ${refusal}`);
      }
    } catch (error) {
      count(row, { name: "can be installed and run", ok: false, error: String(error) });
    }
  }
  recorder.close();
} finally {
  await own?.stop();
}

console.log(`\n${"client".padEnd(22)}${"version".padEnd(12)}passed  failed`);
for (const { name, version, passed, failed, skipped } of rows) {
  const figures = skipped ? `skipped: ${skipped}` : `${String(passed).padStart(6)}${String(failed).padStart(8)}`;
  console.log(`${name.padEnd(22)}${version.padEnd(12)}${figures}`);
}
const sum = (key: "passed" | "failed") => rows.reduce((total, row) => total + row[key], 0);
const skipped = rows.filter((row) => row.skipped).length;
console.log(`\n${sum("passed")} passed, ${sum("failed")} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exitCode = sum("failed") === 0 && sum("passed") > 0 ? 0 : 1;
