import { parseArgs } from "node:util";
import { readConfiguration } from "./doctor/configuration.ts";
import { examine } from "./doctor/examine.ts";
import type { Finding } from "./doctor/finding.ts";

const usage = `npm run doctor -- [--env <file> …] [--json]

Examines a configuration, the project that it names and its model providers, and says what is missing or unsafe. Changes
nothing. A provider without a list of models gets a call of one token for each routed model (docs/providers.md). Several
files are taken together, as the web server's and the functions'. Without --env it takes the environment and .env, and
where they name no project the running local stack. Exit code 1 where something fails.`;

const marks = { ok: "ok    ", warn: "warn  ", fail: "FAIL  ", unseen: "?     " } as const;

try {
  const { values } = parseArgs({
    options: {
      env: { type: "string", multiple: true },
      json: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) console.log(usage);
  else await run({ files: values.env, json: values.json === true });
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function run({ files, json }: { files: string[] | undefined; json: boolean }): Promise<void> {
  const configuration = readConfiguration(files);
  const findings = await examine(configuration);
  if (json) console.log(JSON.stringify({ source: configuration.source, findings }, null, 2));
  else print(configuration.source, findings);
  if (findings.some(({ level }) => level === "fail")) process.exitCode = 1;
}

function print(source: string, findings: readonly Finding[]): void {
  console.log(`Configuration of ${source}\n`);
  const width = Math.max(...findings.map(({ about }) => about.length)) + 2;
  for (const { level, about, says } of findings) console.log(`${marks[level]}${about.padEnd(width)}${says}`);
  const count = (level: Finding["level"]) => findings.filter((finding) => finding.level === level).length;
  console.log(`\n${count("fail")} failed, ${count("warn")} warnings, ${count("ok")} ok`);
}
