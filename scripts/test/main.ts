import { spawn } from "node:child_process";
import { once } from "node:events";

const vitest = (project: string, ...files: string[]) => ["vitest", "run", "--project", project, ...files];
const script = (file: string) => [process.execPath, file];

/** The suites of `npm test -- <suite>`, with the command that runs each. */
const suites: Record<string, { about: string; command: readonly string[] }> = {
  unit: { about: "needs no stack", command: vitest("unit") },
  sql: { about: "the database's functions and rules", command: vitest("sql") },
  contract: { about: "the identity server, or the one that IDENTITY_BIN names", command: vitest("contract") },
  integration: { about: "the servers on a stack", command: vitest("integration*") },
  "direct-calls": {
    about: "what direct calls of the identity backend record, mail and refuse",
    command: vitest("integration", "supabase/tests/direct-calls"),
  },
  stack: {
    about: "faults of the local stack itself",
    command: vitest("fault", "scripts/start", "packages/local-stack"),
  },
  fuzz: { about: "generated requests: --minutes 5 --seed 1", command: script("scripts/fuzz/main.ts") },
  docs: { about: "the documents and their tour", command: script("scripts/docs/main.ts") },
  hosted: { about: "what depends on Deno's version, on hosted Supabase's", command: vitest("hosted") },
  functions: { about: "the functions on both versions of Deno", command: script("scripts/test/functions.ts") },
  sdks: { about: "the SDKs of providers and AI clients", command: vitest("sdks") },
  clients: { about: "published clients in several languages", command: script("scripts/clients/main.ts") },
  silence: {
    about: "clients and a provider that is silent",
    command: [process.execPath, "--import", "./scripts/clients/sdks/resolve.ts", "scripts/clients/silence/main.ts"],
  },
  satellites: { about: "the satellite package in fresh apps", command: script("scripts/satellites/main.ts") },
};

const usage = `npm test                    the product's tests, and those of parts that changed
npm test -- --all           the tests of every part; installs what they need
npm test -- <suite> [arguments of the suite]

${Object.entries(suites)
  .map(([name, { about }]) => `  ${name.padEnd(13)} ${about}`)
  .join("\n")}`;

const [name = "", ...args] = process.argv.slice(2);
const suite = Object.hasOwn(suites, name) ? suites[name] : undefined;
if (suite) {
  const [program = "", ...given] = suite.command;
  const [code] = await once(spawn(program, [...given, ...args], { stdio: "inherit" }), "exit");
  process.exitCode = code ?? 1;
} else if (name === "" || name === "--all") {
  await import("./run-tiers.ts");
} else if (["help", "--help", "-h"].includes(name)) {
  console.log(usage);
} else {
  console.error(`There is no suite ${name}.\n\n${usage}`);
  process.exitCode = 1;
}
