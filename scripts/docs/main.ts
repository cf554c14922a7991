import { spawnSync } from "node:child_process";
import { readArguments } from "../help.ts";
import { startStack } from "../test/start-stack.ts";
import { excuseOf, isRunnable, readBlocks, renderFault } from "./blocks.ts";
import { guides, readDocument } from "./documents.ts";
import { readCommands, unknownCommands } from "./supabase-commands.ts";

// `npm test` skips the Supabase CLI's commands, because the CLI takes seconds to print its help.
const usage = `npm test -- docs

Checks the documents, and the commands of the Supabase CLI in them, on the stack that GATEHOUSE_STACK names or one of
its own.`;
readArguments(usage, {});

const documents = guides.map((file) => ({ file, ...readBlocks(file, readDocument(file)) }));
const faults = documents.flatMap(({ file, blocks }) => unknownCommands(file, blocks.flatMap(readCommands)));
for (const fault of faults) console.error(renderFault(fault));

const checks = [
  { needsStack: false, command: ["vitest", "run", "--project", "unit", "scripts/docs"] },
  {
    needsStack: true,
    command: ["vitest", "run", "--project", "integration-busy", "scripts/docs", "scripts/operator/doctor"],
  },
  { needsStack: true, command: ["playwright", "test", "e2e/tour.spec.ts"] },
];
const stack = process.env.GATEHOUSE_STACK ? undefined : await startStack();
const failed = checks.filter(({ needsStack, command: [name = "", ...args] }) => {
  const env = needsStack && stack ? { ...process.env, GATEHOUSE_STACK: stack.file } : process.env;
  return spawnSync(name, args, { stdio: "inherit", env }).status !== 0;
});
await stack?.stop();

const blocks = documents.flatMap((document) => document.blocks);
const idle = blocks.filter((block) => !isRunnable(block));
console.log(
  `\n${blocks.length} blocks in ${guides.length} documents: ${blocks.length - idle.length} run, ${idle.length} do not:`,
);
for (const [excuse, some] of Map.groupBy(idle, excuseOf))
  console.log(`  ${String(some.length).padStart(2)}  ${excuse}`);
for (const { command } of failed) console.error(`failed: ${command.join(" ")}`);
process.exitCode = failed.length + faults.length === 0 ? 0 : 1;
