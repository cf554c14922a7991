import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { denoPackages } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { z } from "zod";
import { brandAccent, brandName, supportAddress } from "../../remix-app/config/brand.ts";
import { createWholeNumberSchema } from "../../remix-app/config/env.server.ts";
import { readProviders } from "../../supabase/functions/_gateway/providers/provider-settings.ts";
import { isLoopback } from "../../supabase/functions/_shared/loopback.ts";
import { demoProviders } from "./description.ts";

/** The prefix of secrets in `.env.example`, which production refuses. */
export const examplePrefix = "example-only-";

const url = z.url({ protocol: /^https?$/, error: "must be an http or https URL" });
const databaseUrl = z.url({ protocol: /^postgres(ql)?$/, error: "must be a URL that begins with postgres://" });

const schema = z.object({
  NODE_ENV: z.enum(["development", "test", "production"], "must be development, test or production").optional(),
  BASE_URL: url.optional(),
  PORT: createWholeNumberSchema(1, 65_535).optional(),
  PARENT_DOMAIN: z.string().optional(),
  BRAND_NAME: brandName.optional(),
  BRAND_ACCENT: brandAccent.optional(),
  SUPPORT_ADDRESS: supportAddress.optional(),
  SUPABASE_URL: url.transform((text) => text.replace(/\/+$/, "")).optional(),
  SUPABASE_PUBLISHABLE_KEY: z.string().optional(),
  SUPABASE_SECRET_KEY: z.string().optional(),
  SUPABASE_DB_URL: databaseUrl.optional(),
  IDENTITY_BIN: z
    .string()
    .refine((file) => existsSync(file), "names a file that is not there: build Supabase Auth, or remove the line")
    .optional(),
  POSTGRES_BIN: z
    .string()
    .refine((folder) => existsSync(folder), "names a folder that is not there: install Postgres, or remove the line")
    .optional(),
  AI_MEMORY_LIMIT_MB: createWholeNumberSchema(256, 65_536).optional(),
  LOCAL_BOT_CHALLENGE: z.enum(["on", "off"], "must be on or off").optional(),
  LOCAL_DENO: z.enum(denoPackages, `must be ${denoPackages.join(" or ")}`).optional(),
  LOCAL_RESPONSE_LOOP: z.enum(["deno", "hosted"], "must be deno or hosted").optional(),
  WEB_MULTI_ACCOUNT_SESSION_SECRET: z
    .string()
    .min(32, "needs 32 characters or more: make one with `openssl rand -base64 32`")
    .optional(),
});

/** The stack's own settings, and `all`: every variable that is set, for the services. */
export type Environment = { settings: z.infer<typeof schema>; all: Record<string, string> };

/** Variables that require a project URL. */
const projectKeys = ["SUPABASE_PUBLISHABLE_KEY", "SUPABASE_SECRET_KEY"] as const;

/**
 * Validates the settings. An empty value counts as unset.
 * @param origin where the settings come from, for error messages
 * @throws StackError with one message that names each invalid variable and says what to do
 */
export function parseEnvironment(source: Record<string, string | undefined>, origin = "the environment"): Environment {
  const all = Object.fromEntries(
    Object.entries(source).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== ""),
  );
  const parsed = schema.safeParse(all);
  if (!parsed.success) {
    refuse(
      origin,
      parsed.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}.`),
    );
  }
  const settings = parsed.data;
  const faults: string[] = [];
  if (settings.SUPABASE_URL) {
    for (const name of projectKeys) {
      if (settings[name] && !settings[name].startsWith(examplePrefix)) continue;
      faults.push(
        `${name} is not set, but SUPABASE_URL is: add the project's key (Dashboard, Settings, API keys), ` +
          "or remove SUPABASE_URL to use the embedded stack.",
      );
    }
  } else {
    const half = projectKeys.find((name) => settings[name] && !settings[name].startsWith(examplePrefix));
    if (half) {
      faults.push(
        `SUPABASE_URL is not set, but ${half} is: add the project's URL, ` +
          `or remove ${half} to use the embedded stack, which makes its own keys.`,
      );
    }
  }
  if (settings.LOCAL_BOT_CHALLENGE === "on" && settings.IDENTITY_BIN) {
    faults.push("LOCAL_BOT_CHALLENGE is on, but a Supabase Auth asks Cloudflare alone: remove it, or IDENTITY_BIN.");
  }
  faults.push(...providerFaults(all, settings.SUPABASE_URL));
  if (settings.NODE_ENV === "production") faults.push(...exampleFaults(settings));
  if (faults.length > 0) refuse(origin, faults);
  return { settings, all };
}

/**
 * Returns why the functions would refuse the settings. The stack reports these faults before it starts the functions.
 */
function providerFaults(all: Record<string, string>, supabaseUrl?: string): string[] {
  try {
    // Its address and key are not known yet. Settings of the demo provider need both.
    const demo = supabaseUrl ? {} : demoProviders({ provider: "http://127.0.0.1", providerKey: "unknown" });
    readProviders(
      { ...all, ...demo },
      { local: supabaseUrl === undefined || isLoopback(new URL(supabaseUrl).hostname) },
    );
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}

function exampleFaults(settings: Environment["settings"]): string[] {
  return Object.entries(settings)
    .filter(([, value]) => typeof value === "string" && value.startsWith(examplePrefix))
    .map(([name]) => `${name} still has the example's value, which production refuses: set a secret of your own.`);
}

/** @throws StackError if a secret still has its value from `.env.example` */
export function refuseExamples({ settings }: Environment): void {
  const faults = exampleFaults(settings);
  if (faults.length > 0) refuse("the environment", faults);
}

function refuse(origin: string, faults: readonly string[]): never {
  throw new StackError([`The settings in ${origin} do not work:`, ...faults.map((fault) => `  ${fault}`)].join("\n"));
}

/** Variables of our own environment that any process may need. None of them is a setting of the product. */
export const inheritedNames = [
  "PATH",
  "HOME",
  "TMPDIR",
  "LANG",
  "TZ",
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "DENO_DIR",
  "NODE_COMPILE_CACHE",
  "XDG_CACHE_HOME",
];

const isForTests = (name: string) =>
  inheritedNames.includes(name) ||
  name === "IDENTITY_BIN" ||
  name === "POSTGRES_BIN" ||
  name === "AI_MEMORY_LIMIT_MB" ||
  name.startsWith("LOCAL_") ||
  name.startsWith("GOTRUE_");

/**
 * Reads the environment and, if present, `.env` in `directory`. The environment takes precedence. With `embedded`,
 * ignores `.env` and all variables that tests do not need (`isForTests`), so that tests behave the same everywhere and
 * never touch someone's project.
 */
export function readEnvironment(directory: string, { embedded }: { embedded: boolean }): Environment {
  if (embedded) {
    return parseEnvironment(Object.fromEntries(Object.entries(process.env).filter(([name]) => isForTests(name))));
  }
  const file = path.join(directory, ".env");
  if (!existsSync(file)) return parseEnvironment(process.env);
  return parseEnvironment({ ...parseEnv(readFileSync(file, "utf8")), ...process.env }, ".env and the environment");
}
