import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseEnv, promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { parseEnv as parseWebEnv } from "../remix-app/config/env.server.ts";
import { readEnvironment } from "../supabase/functions/_gateway/environment.ts";
import { statusSettings } from "./start/supabase-status.ts";

const root = path.resolve(import.meta.dirname, "..");
const page = readFileSync(path.join(root, "docs/local-supabase.md"), "utf8");
const projectId = /^project_id = "(.*)"$/m.exec(readFileSync(path.join(root, "supabase/config.toml"), "utf8"))?.[1];
/** The settings in the page's `text` blocks: those of the functions, then those of the web server. */
const [functions = {}, web = {}] = [...page.matchAll(/```text\n([\s\S]*?)```/g)].map(([, text = ""]) =>
  parseEnv(text.replaceAll(/^ +/gm, "")),
);
/** What the CLI sets for functions in Docker (`supabase functions serve`, apps/cli-go/internal/functions/serve). */
const inDocker = { SUPABASE_URL: "http://kong:8000", SUPABASE_DB_URL: "postgresql://unused" };
const services = ["kong", "auth", "rest", "realtime", "storage", "studio", "inbucket", "edge_runtime", "pg_meta"];

/**
 * Returns the output of `supabase status -o env` for a project that is running. The CLI asks Docker which containers
 * run, so a server in its place answers those two calls of Docker's API (GET /containers/{id}/json, /containers/json).
 */
async function supabaseStatus(): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), "gatehouse-docker-"));
  const socket = path.join(folder, "docker.sock");
  const docker = createServer(({ url = "" }, response) => {
    response.setHeader("content-type", "application/json").setHeader("api-version", "1.48");
    const running = { Status: "running", Running: true, Health: { Status: "healthy" } };
    const list = services.map((name) => ({ Id: name, Names: [`/supabase_${name}_${projectId}`], State: "running" }));
    if (/\/containers\/[^/]+\/json/.test(url)) response.end(JSON.stringify({ Id: "db", State: running }));
    else response.end(url.includes("/containers/json") ? JSON.stringify(list) : "{}");
  });
  await new Promise<void>((resolve) => docker.listen(socket, resolve));
  try {
    const { stdout } = await promisify(execFile)(
      path.join(root, "node_modules/.bin/supabase"),
      ["status", "-o", "env", "--workdir", root],
      {
        env: {
          NODE_ENV: process.env.NODE_ENV,
          PATH: process.env.PATH,
          HOME: folder,
          DOCKER_HOST: `unix://${socket}`,
          DO_NOT_TRACK: "1",
          SUPABASE_TELEMETRY_DISABLED: "1",
        },
      },
    );
    return stdout;
  } finally {
    docker.closeAllConnections();
    docker.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

let status: Record<string, string>;
let settings: Record<string, string>;
beforeAll(async () => {
  const output = await supabaseStatus();
  status = parseEnv(output) as Record<string, string>;
  settings = statusSettings(output);
}, 60_000);

test("the page about `supabase start` names the addresses that `supabase status` prints", () => {
  const listed = [...page.matchAll(/^\| `([A-Z_]+)`.*\| `(.*)` \|$/gm)];
  expect(listed.map(([, name]) => name)).toContain("FUNCTIONS_URL");
  expect(listed.map(([, name, address]) => [name, address])).toEqual(
    listed.map(([, name = ""]) => [name, status[name]]),
  );
});

test("the page's settings are all that the functions need under `supabase start`", () => {
  const { databaseUrl, tokenIssuer, providers } = readEnvironment({ ...inDocker, ...functions });
  const { hostname, port, username } = new URL(databaseUrl);
  expect([hostname, port, username]).toEqual([`supabase_db_${projectId}`, "5432", "gateway"]);
  expect(tokenIssuer).toBe(`${status.API_URL}/auth/v1`);
  expect([...providers.keys()]).toEqual(["openai"]);
  for (const missing of ["GATEWAY_DB_URL", "AI_PROVIDER_OPENAI_API_KEY"]) {
    expect(() => readEnvironment({ ...inDocker, ...functions, [missing]: undefined })).toThrow(missing);
  }
});

test("the CLI does not skip any of the page's settings for the functions", () => {
  expect(Object.keys(functions).filter((name) => name.startsWith("SUPABASE_"))).toEqual([]);
});

test("a provider on this machine needs ALLOW_PRIVATE, because SUPABASE_URL is not on loopback in Docker", () => {
  const own = {
    AI_PROVIDER_OWN_KIND: "openai-compatible",
    AI_PROVIDER_OWN_BASE_URL: "http://host.docker.internal:1/v1",
  };
  expect(() => readEnvironment({ ...inDocker, ...functions, ...own })).toThrow("AI_PROVIDER_OWN_ALLOW_PRIVATE");
  const allowed = { ...own, AI_PROVIDER_OWN_ALLOW_PRIVATE: "on" };
  expect(readEnvironment({ ...inDocker, ...functions, ...allowed }).providers.has("own")).toBe(true);
});

test("the output of `supabase status` and the page's settings are all that the web server needs", () => {
  const env = parseWebEnv({ NODE_ENV: "development", BASE_URL: "http://localhost:3000", ...settings, ...web });
  expect(`${env.AI_URL}/v1`).toBe(status.FUNCTIONS_URL);
  expect([env.SUPABASE_URL, env.APP_SESSION_SECRET]).toEqual([status.API_URL, web.APP_SESSION_SECRET]);
});
