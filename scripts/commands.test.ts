import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { guides, readDocument } from "./docs/documents.ts";

function run(script: string, ...args: string[]) {
  const { PATH = "", NODE_ENV } = process.env;
  const env = { PATH, NODE_ENV, GATEHOUSE_STACK: "none.json" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { env, encoding: "utf8" });
  return { status, stdout, stderr };
}

const suites = [...run("scripts/test/main.ts", "--help").stdout.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name);
const verbs = [...run("scripts/gatehouse.ts", "--help").stdout.matchAll(/^([a-z-]+) {2,}[A-Z]/gm)].map(
  ([, name]) => name,
);

test("package.json has sixteen scripts", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: object };
  expect(Object.keys(scripts).toSorted()).toEqual(
    [
      ...["bench", "build", "dev", "doctor", "format", "gallery", "gatehouse", "generate"],
      ...["lint", "release", "reset", "serve", "soak", "start", "test", "typecheck"],
    ].toSorted(),
  );
});

test("npm run gatehouse knows the users' verbs, the operators' and the mobile app", () => {
  expect(verbs).toEqual([
    ...["login", "connect", "status", "token", "disconnect", "logout", "export", "plan", "apply", "drift", "api"],
    ...["admin", "app", "backup", "compose", "doctor", "email-templates", "import-costs", "import-users", "prices"],
    ...["restore", "service-account", "setup"],
    "mobile",
  ]);
});

test.each(verbs.slice(verbs.indexOf("admin")))("npm run gatehouse -- %s --help shows its usage", (verb = "") => {
  const { status, stdout } = run("scripts/gatehouse.ts", verb, "--help");
  expect([status, stdout]).toEqual([
    0,
    expect.stringContaining(`npm run ${verb === "doctor" ? "" : "gatehouse -- "}${verb}`),
  ]);
});

test.each([
  ["scripts/test/main.ts", "There is no suite nonsense."],
  ["scripts/generate.ts", "There is nothing to generate called nonsense."],
  ["scripts/gatehouse.ts", "Unknown command: nonsense"],
  // A misspelt verb of an operator.
  ["scripts/gatehouse.ts", "import-costs     Imports a provider's costs."],
])("%s names an argument that it does not know, and fails", (script, message) => {
  const { status, stderr } = run(script, "nonsense");
  expect(status).toBeGreaterThan(0);
  expect(stderr).toContain(message);
});

test.concurrent.each([
  "scripts/test/main.ts clients",
  "scripts/test/main.ts docs",
  "scripts/test/main.ts functions",
  "scripts/test/main.ts fuzz",
  "scripts/bench/command.ts identity",
  "scripts/bench/command.ts seed",
  "scripts/gallery/main.ts",
  "scripts/soak/main.ts",
  "scripts/start/reset.ts",
])("%s shows its usage for --help, and with the fault for an unknown option", async (command) => {
  const ask = (option: string) =>
    new Promise<{ failed: boolean; stdout: string; stderr: string }>((resolve) => {
      const { PATH = "", NODE_ENV } = process.env;
      const env = { PATH, NODE_ENV, GATEHOUSE_STACK: "none.json" };
      execFile(process.execPath, [...command.split(" "), option], { env, timeout: 60_000 }, (error, stdout, stderr) =>
        resolve({ failed: error !== null, stdout, stderr }),
      );
    });
  const [help, wrong] = await Promise.all([ask("--help"), ask("--nonsense")]);
  expect(help).toEqual({ failed: false, stdout: expect.stringMatching(/^npm (test|run [a-z]+)/), stderr: "" });
  expect(wrong).toEqual({ failed: true, stdout: "", stderr: expect.stringContaining("--nonsense") });
  expect(wrong.stderr).toContain(help.stdout);
});

test("the program of each suite exists", () => {
  const programs = [...readFileSync("scripts/test/main.ts", "utf8").matchAll(/"((?:\.\/)?scripts\/[^"]+\.ts)"/g)];
  expect(programs.length).toBeGreaterThan(5);
  expect(programs.filter(([, file = ""]) => !existsSync(file))).toEqual([]);
});

describe.each(guides)("the commands in %s", (file) => {
  const named = (pattern: RegExp) => [...readDocument(file).matchAll(pattern)].map(([, name]) => name);

  test("its verbs of npm run gatehouse exist", () => {
    const used = named(/(?:npm run gatehouse --|scripts\/gatehouse\.ts) ([a-z-]+)/g);
    expect(used.filter((name) => !verbs.includes(name))).toEqual([]);
  });

  test("its suites of npm test exist", () => {
    expect(named(/npm test -- ([a-z]+[a-z-]*)/g).filter((name) => !suites.includes(name))).toEqual([]);
  });
});
