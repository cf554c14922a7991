import { existsSync, readFileSync } from "node:fs";
import { parseEnv as parseEnvFile } from "node:util";
import { z } from "zod";
import { demoProviders } from "../local-stack/description.ts";

/** What is examined: settings as text, and where they come from. */
export interface Configuration {
  source: string;
  settings: Record<string, string | undefined>;
  /** A stack on this machine, whose settings are its own making. */
  local: boolean;
}

const runningStack = z.object({
  base: z.url(),
  ai: z.url(),
  supabase: z.object({ url: z.url(), publishableKey: z.string(), secretKey: z.string(), dbUrl: z.string() }),
  /** Empty where the stack is not the embedded one. */
  provider: z.string(),
  providerKey: z.string(),
});

/**
 * The configuration to examine: the files that were named, later ones before earlier ones; else the environment with `.env` below it, where they name a
 * project; else the running local stack.
 * @throws Error saying what to do where there is none
 */
export function readConfiguration(files: readonly string[] | undefined): Configuration {
  if (files !== undefined) {
    const missing = files.find((file) => !existsSync(file));
    if (missing !== undefined)
      throw new Error(`There is no file ${missing}: name the one that the web server is started with.`);
    // The operator's own token belongs in the shell, and not in a server's file.
    const { SUPABASE_ACCESS_TOKEN } = process.env;
    const settings = Object.assign(
      { SUPABASE_ACCESS_TOKEN },
      ...files.map((file) => parseEnvFile(readFileSync(file, "utf8"))),
    );
    return { source: files.join(" and "), settings, local: false };
  }
  const below = existsSync(".env") ? parseEnvFile(readFileSync(".env", "utf8")) : {};
  const settings = { ...below, ...process.env };
  if (settings.SUPABASE_URL) return { source: "the environment and .env", settings, local: false };
  const { GATEHOUSE_STACK: stackFile = ".local/stack.json" } = process.env;
  if (!existsSync(stackFile)) {
    throw new Error(
      "There is nothing to examine: name a file (npm run doctor -- --env production.env), set SUPABASE_URL and its keys, " +
        "or start the local stack (npm start).",
    );
  }
  const { base, ai, supabase, ...demo } = runningStack.parse(JSON.parse(readFileSync(stackFile, "utf8")));
  // The stack gives its functions the providers of its own environment too.
  const own = Object.entries(settings).filter(([name]) => name.startsWith("AI_PROVIDER_"));
  return {
    source: stackFile,
    local: true,
    settings: {
      NODE_ENV: "development",
      BASE_URL: base,
      AI_URL: ai,
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      SUPABASE_DB_URL: supabase.dbUrl,
      ...Object.fromEntries(own),
      ...(demo.provider ? demoProviders(demo) : {}),
    },
  };
}
