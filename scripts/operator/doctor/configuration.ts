import { existsSync, readFileSync } from "node:fs";
import { parseEnv as parseEnvFile } from "node:util";
import { z } from "zod";
import { demoProviders } from "../../start/description.ts";

/** The settings to examine, as text, and where they come from. */
export interface Configuration {
  source: string;
  settings: Record<string, string | undefined>;
  /** True for a local stack, which generates its own settings. */
  local: boolean;
}

const runningStack = z.object({
  base: z.url(),
  ai: z.url(),
  supabase: z.object({ url: z.url(), publishableKey: z.string(), secretKey: z.string(), dbUrl: z.string() }),
  /** The address of the embedded stack's model provider. Empty for a hosted project. */
  provider: z.string(),
  providerKey: z.string(),
});

/**
 * Reads the configuration to examine. If files are passed, reads them in order, and later files take precedence.
 * Otherwise reads the environment and `.env` if they name a project, or else the running local stack.
 * @throws Error if a file is missing or there is nothing to examine. The message says what to do.
 */
export function readConfiguration(files: readonly string[] | undefined): Configuration {
  if (files !== undefined) {
    const missing = files.find((file) => !existsSync(file));
    if (missing !== undefined)
      throw new Error(`There is no file ${missing}. Name one with the settings, such as production.env.`);
    // Takes only SUPABASE_ACCESS_TOKEN from the shell. It is the operator's own token and should not be in a server's
    // environment file.
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
  // The stack also passes the `AI_PROVIDER_*` variables of its environment to its functions.
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
