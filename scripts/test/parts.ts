import { readFile, writeFile } from "node:fs/promises";
import { hashFiles, listFiles } from "../hash-files.ts";

/** The test files of each tier that is a project of Vitest. Other `*.test.ts` files are unit tests. */
export const tierTests = {
  sql: "supabase/tests/**/*.test.ts",
  contract: "packages/local-stack/contract/**/*.test.ts",
  integration: "**/*.integration.test.ts",
  fault: "**/*.fault.test.ts",
  fuzz: "**/*.fuzz.test.ts",
  sdks: "**/*.sdk.test.ts",
};

/**
 * The integration tests whose own processes keep both cores busy, such as scratch clusters, the documents' commands
 * and files of 8 MiB. They run after the others, whose servers would otherwise exceed their time limits.
 */
export const busyTests = [
  "remix-app/loop-delay.integration.test.ts",
  "remix-app/admin/console-prices.integration.test.ts",
  "remix-app/openid/device/device-phone.integration.test.ts",
  "remix-app/session/closed-sign-up.integration.test.ts",
  "packages/local-stack/services/gateway/data-api-access.integration.test.ts",
  "scripts/{database,docs,releases}/**/*.integration.test.ts",
  "scripts/operator/doctor/**/*.integration.test.ts",
] as const;

/** The tests that also run on the Deno of hosted Supabase's runtime. */
export const hostedTests = [
  "packages/local-stack/services/functions/host.test.ts",
  "supabase/functions/_gateway/leaving-clients.integration.test.ts",
  "supabase/functions/_gateway/providers/exchange.test.ts",
] as const;

/** The tests that `npm test` always runs: those of the product, and those whose result depends on the whole tree. */
export const productTests = [
  "{remix-app,supabase,satellites,e2e}/**/*.{test,spec}.{ts,tsx}",
  "packages/{cli,satellite}/**/*.test.ts",
  "scripts/*.test.ts",
  "scripts/{lint,mobile,openapi,operator,test}/**/*.test.ts",
  "monitoring/monitoring.test.ts",
  "scripts/docs/documents.test.ts",
  "scripts/gallery/states.test.ts",
];

/**
 * A part of the repository whose tests run only after one of its files has changed. Patterns with `!` exclude files.
 */
export type Part = {
  name: string;
  files: readonly string[];
  tests: readonly string[];
  /** A tier that is a command and belongs to this part. */
  command?: "gallery" | "hosted" | "soak";
};

const notDocuments = "!**/*.md";

export const parts: readonly Part[] = [
  {
    name: "identity server",
    files: [
      "packages/local-stack/{services/identity,contract}/**/*",
      "packages/local-stack/services/postgres/bootstrap.sql",
      notDocuments,
    ],
    tests: ["packages/local-stack/{services/identity,contract}/**/*.test.ts"],
  },
  {
    name: "local stack",
    files: [
      "supabase/*.{sql,toml}",
      "packages/local-stack/**/*",
      "scripts/start/**/*",
      "scripts/database/{migrations,snapshot,statements}.ts",
      "!packages/local-stack/{services/identity,contract}/**/*",
      notDocuments,
    ],
    tests: [
      "{packages/local-stack,scripts/start}/**/*.test.ts",
      "!packages/local-stack/{services/identity,contract}/**/*",
    ],
  },
  {
    name: "migrations",
    files: ["supabase/{migrations,schemas,releases}/**/*", "scripts/{database,releases}/**/*"],
    tests: ["scripts/{database,releases}/**/*.test.ts", "!scripts/releases/upgrade.fault.test.ts"],
  },
  {
    name: "monitoring",
    files: ["monitoring/**/*", "remix-app/monitoring/**/*", "supabase/functions/_shared/metrics-*.ts"],
    tests: ["monitoring/**/*.test.ts", "!monitoring/monitoring.test.ts"],
  },
  {
    name: "upgrade and rollback",
    files: ["supabase/{migrations,releases}/**/*", "scripts/releases/**/*", "scripts/soak/{stack,world}.ts"],
    tests: ["scripts/releases/upgrade.fault.test.ts"],
  },
  {
    name: "soak",
    files: [
      "scripts/soak/**/*",
      "supabase/functions/_gateway/{admission,database,runs}/**/*",
      "supabase/schemas/gateway/{admission,budget-*,envelopes,extension,limits,money,rate-windows,settlement,sweep}.sql",
      "supabase/schemas/envelopes/*.sql",
      "!supabase/functions/**/*.test.ts",
    ],
    tests: ["scripts/soak/**/*.test.ts"],
    command: "soak",
  },
  {
    name: "fuzz",
    files: [
      "scripts/fuzz/**/*",
      "remix-app/{app,routes}.ts",
      "remix-app/http/**/*",
      "supabase/functions/*/index.ts",
      "supabase/functions/_gateway/http/**/*",
      "!{remix-app,supabase}/**/*.test.{ts,tsx}",
    ],
    tests: ["scripts/fuzz/**/*.test.ts"],
  },
  {
    name: "gallery",
    files: ["scripts/gallery/**/*"],
    tests: ["scripts/gallery/**/*.test.ts", "!scripts/gallery/states.test.ts"],
    command: "gallery",
  },
  {
    name: "one machine",
    files: [
      "deploy/compose/{Caddyfile,*.{ts,yaml,sql}}",
      "packages/local-stack/services/postgres/bootstrap.sql",
      "remix-app/{serve,server,runtime}.ts",
      "scripts/start/identity-environment.ts",
      "supabase/functions/_server/**/*",
      "supabase/templates/*",
      "!supabase/functions/**/*.test.ts",
    ],
    tests: ["deploy/compose/*.test.ts"],
  },
  {
    name: "hosted set-up",
    files: ["deploy/hosted/**/*", "supabase/{config.toml,templates/*}"],
    tests: ["deploy/hosted/*.test.ts"],
  },
  {
    name: "import of users",
    files: ["deploy/import-users/**/*", "packages/local-stack/services/identity/core/{admin-users,password*}.ts"],
    tests: ["deploy/import-users/*.test.ts"],
  },
  {
    name: "helm chart",
    files: [
      "{package.json,deploy/helm/**/*,images/Containerfile,monitoring/*.yml,docs/settings.md}",
      "remix-app/{app,config/env.server}.ts",
      "supabase/functions/_server/{server,settings}.ts",
      "supabase/functions/_gateway/{environment,telemetry/gateway-metrics}.ts",
    ],
    tests: ["deploy/helm/*.test.ts"],
  },
  {
    name: "backup",
    files: [
      "deploy/backup/*.ts",
      "packages/local-stack/services/postgres/bootstrap.sql",
      "scripts/database/{migrations,scratch-cluster}.ts",
      "scripts/database/contents/*.ts",
      "supabase/migrations/*.sql",
      "!scripts/database/contents/*.test.ts",
    ],
    tests: ["deploy/backup/*.test.ts"],
  },
  {
    name: "documents",
    files: ["{README,CONTRIBUTING}.md", "docs/*.md", "scripts/docs/**/*"],
    tests: ["scripts/docs/**/*.test.ts", "!scripts/docs/documents.test.ts"],
  },
  {
    name: "images",
    files: [
      "{.dockerignore,package-lock.json}",
      "images/**/*",
      "remix-app/{serve,server,supervise}.ts",
      "supabase/functions/_server/**/*",
      "!supabase/functions/_server/**/*.test.ts",
    ],
    tests: ["images/**/*.test.ts"],
  },
  { name: "bench", files: ["scripts/{bench,load}/**/*", notDocuments], tests: ["scripts/bench/**/*.test.ts"] },
  {
    name: "clients",
    files: ["scripts/{clients,satellites}/**/*", "packages/satellite/examples/**/*", notDocuments],
    tests: ["scripts/{clients,satellites}/**/*.test.ts", "!scripts/clients/sdks/*"],
  },
  {
    name: "SDKs",
    files: [
      "scripts/clients/sdks/*",
      "remix-app/studio/playground/request-code.ts",
      "supabase/functions/_gateway/{answers,chat,messages}/**/*",
      "!supabase/functions/**/*.test.ts",
    ],
    tests: ["scripts/clients/sdks/*.sdk.test.ts"],
  },
  {
    name: "hosted Deno",
    files: [
      "packages/local-stack/services/functions/**/*",
      "supabase/functions/_server/{background,listen,listener,server}.ts",
      "supabase/functions/_gateway/{answers,http,providers}/**/*",
      "supabase/functions/_gateway/leaving-clients.integration.test.ts",
      "!supabase/functions/_gateway/{answers,http,providers}/**/*.integration.test.ts",
      notDocuments,
    ],
    tests: [],
    command: "hosted",
  },
];

/** The hash of each part's files when its tests last passed. */
export type Verified = Record<string, string>;

const verifiedFile = "scripts/test/verified.json";

/** Returns the hash of each part's present files. */
export async function hashParts(root = "."): Promise<Verified> {
  const hashes = await Promise.all(parts.map(async ({ name, files }) => [name, await hashFiles(root, files)] as const));
  return Object.fromEntries(hashes);
}

export async function readVerified(): Promise<Verified> {
  return JSON.parse(await readFile(verifiedFile, "utf8")) as Verified;
}

export async function writeVerified(verified: Verified): Promise<void> {
  await writeFile(verifiedFile, `${JSON.stringify(verified, null, 2)}\n`);
}

/** Returns the parts whose files differ from those that were verified. */
export function findChanged(hashes: Verified, verified: Verified): Part[] {
  return parts.filter(({ name }) => hashes[name] !== verified[name]);
}

export const testsOf = (part: Part) => listFiles(".", part.tests);

/**
 * Returns the hashes of the parts that passed: all their test files did, and their command, if they have one.
 * @param passed the test files and the commands that passed
 */
export function verifiedAfter(hashes: Verified, passed: ReadonlySet<string>): Verified {
  const good = parts.filter(
    (part) => testsOf(part).every((file) => passed.has(file)) && (!part.command || passed.has(part.command)),
  );
  return Object.fromEntries(good.map(({ name }) => [name, hashes[name] ?? ""]));
}
