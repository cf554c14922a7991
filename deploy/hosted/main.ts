import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { readArguments } from "../../scripts/help.ts";
import { readCheckout, runSupabase } from "./checkout.ts";
import { createManagementApi, managementApiAddress } from "./management-api.ts";
import { readSettings, webSettings } from "./settings.ts";
import { setUp } from "./setup.ts";

const usage = `npm run gatehouse -- setup --project <reference> [--plan | --yes]

Sets up a project of hosted Supabase, or brings it up to date. Shows what differs, asks, changes it, and runs the
doctor. If it fails halfway, run it again. Needs SUPABASE_ACCESS_TOKEN: https://supabase.com/dashboard/account/tokens

--project    the project's reference, the first part of its address
--plan       only shows what differs
--yes        does not ask
--env        the web server's settings (production.env): BASE_URL, SMTP_URL and MAIL_FROM. Setup adds what is missing.
--functions  the functions' settings (functions.env), such as AI_PROVIDER_…. Setup adds what is missing.
--backend    settings of sign-in providers and the captcha, such as GOTRUE_EXTERNAL_GOOGLE_SECRET`;

const text = { type: "string" } as const;
const flag = { type: "boolean", default: false } as const;
const { values } = readArguments(usage, {
  options: {
    project: text,
    plan: flag,
    yes: flag,
    env: { ...text, default: "production.env" },
    functions: { ...text, default: "functions.env" },
    backend: text,
  },
});
const { project: ref = "", plan, yes, env, functions, backend } = values;

try {
  await run();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function run(): Promise<void> {
  if (!/^[a-z]{20}$/.test(ref)) throw new Error(`--project must be a reference of 20 letters.\n\n${usage}`);
  const { SUPABASE_ACCESS_TOKEN: token } = process.env;
  if (!token) throw new Error("Set SUPABASE_ACCESS_TOKEN. Create one: https://supabase.com/dashboard/account/tokens");
  // A misspelled name must not count as an empty file: setup would replace what the other one holds.
  for (const file of [env, functions, ...(backend ? [backend] : [])])
    if (!existsSync(file))
      throw new Error(`There is no file ${file}. Write it first (docs/deploying.md), or correct its name.`);
  const read = webSettings.safeParse(readSettings(env));
  if (!read.success)
    throw new Error(read.error.issues.map(({ path, message }) => `${path.join(".")} in ${env} ${message}.`).join("\n"));
  const web = read.data;
  const outcome = await setUp({
    ref,
    api: createManagementApi({ token, address: managementApiAddress(process.env) }),
    checkout: readCheckout(web),
    web,
    files: {
      web: { path: env, settings: readSettings(env) },
      functions: { path: functions, settings: readSettings(functions) },
    },
    backend: backend ? readSettings(backend) : {},
    supabase: runSupabase,
    confirm: plan ? undefined : yes ? async () => true : ask,
    print: console.log,
  });
  if (outcome === "applied" || outcome === "unchanged") process.exitCode = runDoctor();
  else if (outcome !== "planned") process.exitCode = 1;
}

async function ask(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw new Error("Nothing is changed: a plan is confirmed in a terminal, or with --yes.");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

function runDoctor(): number {
  const args = ["scripts/operator/doctor.ts", "--env", env, "--env", functions];
  return spawnSync(process.execPath, args, { stdio: "inherit" }).status ?? 1;
}
