import { styleText } from "node:util";
import { readArguments } from "../help.ts";
import { readStackFile } from "../test/stack.ts";
import { startStack } from "../test/start-stack.ts";
import { type Check, refusals, requiredChecks } from "./checks.ts";
import { type Client, clients, versionOf } from "./clients.ts";
import { install, whySkipped } from "./install.ts";
import { runProgram, runSnippet } from "./program.ts";
import { createRecorder } from "./recorder.ts";
import { failedFeatures, type Row, renderTable, whatBroke } from "./table.ts";

const usage = `npm test -- clients [--newest] [client …]

Runs published clients, unmodified, against the stack that GATEHOUSE_STACK names, or one of its own. Each makes a plain
call, reads a stream, returns a tool's result and continues the conversation, and asks for structured output, with a
plain model and with one whose messages have provider-specific members. Clients are installed below .local/clients/
in the versions that their manifests pin. The exit code is 1 if a check failed or none ran.

  --newest  runs the newest versions, and a client that fails once more as pinned, to tell what broke

Clients: ${clients.map(({ name }) => name).join(", ")}`;
const usualModels = ["demo-chat", "demo-reasoning"];

const { values, positionals: names } = readArguments(usage, {
  options: { newest: { type: "boolean", default: false } },
  allowPositionals: true,
});
const unknown = names.filter((name) => !clients.some((client) => client.name === name));
if (unknown.length > 0) {
  console.error(`There is no client ${unknown.join(", ")}.\n\n${usage}`);
  process.exit(1);
}
const chosen = clients.filter(({ name }) => names.length === 0 || names.includes(name));

function print({ name, ok, error }: Check): void {
  console.log(`${ok ? styleText("green", "passed") : styleText("red", "failed")}  ${name}`);
  if (!ok && error) console.log(error.trim().replace(/^/gm, "        "));
}

async function runClient(client: Client, { newest }: { newest: boolean }): Promise<Row> {
  const { name, lacks = [], models = usualModels } = client;
  const row: Row = { name, version: versionOf(client), checks: [], lacks };
  console.log(`\n── ${name}`);
  const skipped = whySkipped(client);
  if (skipped) return { ...row, skipped };
  try {
    const installed = install(client, { newest });
    const gateway = { baseURL: `${recorder.url}/v1`, apiKey: stack.aiKey };
    row.version = installed.version;
    for (const check of await runSnippet(client, { installed, ...gateway })) {
      print(check);
      row.checks.push(check);
    }
    for (const model of models) {
      const reported = await runProgram(installed, { model, ...gateway });
      const exchanges = recorder.take();
      for (const check of [...reported, ...requiredChecks(reported, { exchanges, lacks })]) {
        const ofModel = { ...check, name: `${model}: ${check.name}` };
        print(ofModel);
        row.checks.push(ofModel);
      }
      for (const refusal of refusals(exchanges)) console.log(`refused ${refusal}`);
    }
  } catch (error) {
    const check = { name: "can be installed and run", ok: false, error: String(error) };
    print(check);
    row.checks.push(check);
  }
  return row;
}

const own = process.env.GATEHOUSE_STACK ? undefined : await startStack();
const stack = readStackFile(own?.file ?? (process.env.GATEHOUSE_STACK as string));
const recorder = await createRecorder(new URL(stack.ai));
const rows: Row[] = [];
const broken: string[] = [];
try {
  for (const client of chosen) {
    const row = await runClient(client, values);
    rows.push(row);
    if (!values.newest || failedFeatures(row).length === 0) continue;
    broken.push(...whatBroke(row, await runClient(client, { newest: false })));
  }
} finally {
  recorder.close();
  await own?.stop();
}

if (values.newest) console.log(`\nbroke with the newest version:\n${broken.join("\n") || "nothing"}`);
console.log(`\n${renderTable(rows)}`);
const checks = rows.flatMap((row) => row.checks);
process.exitCode = checks.length > 0 && checks.every(({ ok }) => ok) ? 0 : 1;
