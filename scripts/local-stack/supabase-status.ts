import { spawnSync } from "node:child_process";
import path from "node:path";
import { parseEnv } from "node:util";
import { StackError } from "./errors.ts";

/**
 * What the Supabase CLI says of the project that `supabase start` runs here.
 * @returns the settings that stand for it
 * @throws StackError with the CLI's own words when none runs
 */
export function readSupabaseStatus(root: string): Record<string, string> {
  const command = path.join(root, "node_modules/.bin/supabase");
  const { status, stdout, stderr, error } = spawnSync(command, ["status", "-o", "env"], {
    cwd: root,
    encoding: "utf8",
  });
  if (status !== 0) {
    const reason = (error?.message ?? stderr).trim();
    throw new StackError(
      `The Supabase CLI knows of no running project:\n${reason}\n` +
        "Start it first: npx supabase start. Or leave out --supabase: npm run dev",
    );
  }
  return statusSettings(stdout);
}

/**
 * Turns the output of `supabase status -o env` into our settings.
 * @throws StackError naming what it lacks
 */
export function statusSettings(output: string): Record<string, string> {
  const said = parseEnv(output);
  const settings = {
    SUPABASE_URL: said.API_URL,
    SUPABASE_PUBLISHABLE_KEY: said.PUBLISHABLE_KEY ?? said.ANON_KEY,
    SUPABASE_SECRET_KEY: said.SECRET_KEY ?? said.SERVICE_ROLE_KEY,
    SUPABASE_DB_URL: said.DB_URL,
    MAILBOX_URL: said.MAILPIT_URL ?? said.INBUCKET_URL ?? "",
  };
  const complete: Record<string, string> = {};
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined) throw new StackError(`supabase status did not say what stands for ${name}.`);
    if (value !== "") complete[name] = value;
  }
  return complete;
}
