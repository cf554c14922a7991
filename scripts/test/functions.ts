import { mkdir, rm } from "node:fs/promises";
import path from "node:path";
import { readArguments } from "../help.ts";
import { runVitest } from "./runners.ts";
import { startStack } from "./start-stack.ts";

const runtimes = ["deno/deno", "deno/hosted", "deno-hosted/deno", "deno-hosted/hosted"];
const usage = `npm test -- functions [--on ${runtimes.join("|")}]

Runs the functions' integration tests on both versions of Deno, except tests tagged needs-stack-server. On each version,
the tests run once with Deno's own server and once with a response loop like hosted Supabase's. Each of the four
combinations has its own stack, and --on runs only one. The output ends with the counts for each combination.`;
const { values } = readArguments(usage, { options: { on: { type: "string" } } });
const chosen = runtimes.filter((runtime) => values.on === undefined || values.on === runtime);
if (chosen.length === 0) throw new Error(`--on takes one of ${runtimes.join(", ")}`);

const reportDir = path.resolve("test-results/functions");
await rm(reportDir, { recursive: true, force: true });
await mkdir(reportDir, { recursive: true });

const outcomes: { runtime: string; passed: number; failed: number; failures: string[] }[] = [];
for (const runtime of chosen) {
  const [deno = "", loop = ""] = runtime.split("/");
  const settings = { LOCAL_DENO: deno, LOCAL_RESPONSE_LOOP: loop };
  console.log(`\n── functions on ${runtime}`);
  const stack = await startStack(settings);
  try {
    // Some tests start functions in processes of their own, and these processes need the settings, too.
    Object.assign(process.env, settings, { GATEHOUSE_STACK: stack.file });
    outcomes.push({
      runtime,
      ...(await runVitest("integration", {
        reportDir,
        files: ["supabase/functions"],
        withoutTag: "needs-stack-server",
      })),
    });
  } finally {
    await stack.stop();
  }
}

for (const { runtime, failures } of outcomes) {
  for (const failure of failures) console.log(`\n── failed on ${runtime}: ${failure}`);
}
console.log(`\n${"deno/loop".padEnd(20)}passed  failed`);
for (const { runtime, passed, failed } of outcomes) {
  console.log(runtime.padEnd(20) + String(passed).padStart(6) + String(failed).padStart(8));
}
process.exitCode = outcomes.every(({ passed, failed }) => passed > 0 && failed === 0) ? 0 : 1;
