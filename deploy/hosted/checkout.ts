import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "smol-toml";
import { z } from "zod";
import { supabaseFiles } from "../../scripts/operator/email-templates/supabase-files.ts";
import type { WebSettings } from "./settings.ts";

const config = z.object({
  api: z.object({ schemas: z.array(z.string()), extra_search_path: z.array(z.string()), max_rows: z.number() }),
  auth: z.record(z.string(), z.unknown()),
  functions: z.record(z.string(), z.object({ verify_jwt: z.boolean() })),
});

/** Reads what a project must have from the Supabase project in this checkout. */
export function readCheckout({ BRAND_NAME: name, BRAND_ACCENT: accent, SUPPORT_ADDRESS: support }: WebSettings) {
  const templates = supabaseFiles({ name, accent, support }, readFileSync("supabase/config.toml", "utf8"));
  return {
    ...config.parse(parse(templates.get("supabase/config.toml") ?? "")),
    templates,
    migrations: readdirSync("supabase/migrations").flatMap((file) => /^(\d+)_.*\.sql$/.exec(file)?.[1] ?? []),
    functionsDigest: digestOfFunctions("supabase/functions"),
  };
}
export type Checkout = ReturnType<typeof readCheckout>;

function digestOfFunctions(folder: string): string {
  const digest = createHash("sha256");
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
    .map((entry) => path.join(entry.parentPath, entry.name));
  for (const file of files.sort()) digest.update(`${file}\0`).update(readFileSync(file)).update("\0");
  return digest.digest("hex");
}

const shownLines = 20;

/**
 * Runs Supabase's command line, which reads SUPABASE_ACCESS_TOKEN from the environment.
 * @throws Error with the end of its output if it fails
 */
export async function runSupabase(args: readonly string[]): Promise<void> {
  const command = spawn(process.execPath, ["node_modules/supabase/dist/supabase.js", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output: Buffer[] = [];
  for (const stream of [command.stdout, command.stderr]) stream.on("data", (chunk: Buffer) => output.push(chunk));
  const [code] = await once(command, "close");
  if (code === 0) return;
  const lines = Buffer.concat(output).toString().trim().split("\n").slice(-shownLines);
  throw new Error(`npx supabase ${args.join(" ")} failed.\n${lines.join("\n")}`);
}
