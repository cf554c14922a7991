import { spawnSync } from "node:child_process";
import path from "node:path";
import { parseEnv } from "node:util";
import { StackError } from "@gatehousehq/local-stack/errors";

/**
 * Reads the output of `supabase status` for the project that `supabase start` runs on this machine.
 * @returns the project's settings
 * @throws StackError with the CLI's own message if no project is running
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
      `The Supabase CLI finds no running project:\n${reason}\n` +
        "Start it first: npx supabase start. Or leave out --supabase: npm run dev",
    );
  }
  return statusSettings(stdout);
}

/**
 * Converts the output of `supabase status -o env` to our settings.
 * @throws StackError naming what is missing
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
