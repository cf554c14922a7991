import { readFileSync } from "node:fs";
import path from "node:path";
import { createClient } from "@supabase/supabase-js";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StackDescription } from "../description.ts";
import {
  eventually,
  newDataDir,
  processesOf,
  readDescription,
  type StackProcess,
  startRunner,
} from "./stack-process.ts";

let place: Awaited<ReturnType<typeof newDataDir>>;
let runner: StackProcess;
let stack: StackDescription;

beforeAll(async () => {
  place = await newDataDir();
  await start();
});
afterAll(async () => {
  runner.child.kill("SIGTERM");
  await runner.ended();
  await place.remove();
});

async function start(): Promise<void> {
  runner = startRunner(place.dataDir);
  stack = await runner.ready();
}

async function withDatabase<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: stack.supabase.dbUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Commits a row that must survive. */
async function commit(note: string): Promise<void> {
  await withDatabase(async (client) => {
    await client.query("create table if not exists public.fault_notes (note text primary key)");
    await client.query("insert into public.fault_notes values ($1)", [note]);
  });
}

async function committed(): Promise<string[]> {
  const { rows } = await withDatabase((client) =>
    client.query<{ note: string }>("select note from public.fault_notes"),
  );
  return rows.map(({ note }) => note);
}

/** Signs in and makes a request that passes through web, gateway, identity, Data API and database. */
async function signIn(): Promise<boolean> {
  const supabase = createClient(stack.supabase.url, stack.supabase.publishableKey, { auth: { persistSession: false } });
  const user = stack.users.find(({ role }) => role === "user");
  const { error } = await supabase.auth.signInWithPassword({
    email: user?.email ?? "",
    password: user?.password ?? "",
  });
  if (error) throw error;
  const { data } = await supabase.from("workspaces").select("id");
  const page = await fetch(`${stack.base}/healthz`);
  return (data?.length ?? 0) > 0 && page.ok;
}

test("a new user sees the demo models, with the default of each kind first", async () => {
  const headers = { authorization: `Bearer ${stack.aiKey}` };
  const answer = await fetch(`${stack.ai}/v1/models`, { headers });
  const { data } = (await answer.json()) as { data: { id: string }[] };
  expect(data.map(({ id }) => id)).toEqual([
    "demo-chat",
    "demo-agent",
    "demo-long",
    "demo-messages",
    "demo-reasoning",
    "demo-embedding",
    "demo-speech",
  ]);
});

describe("after a service is killed", () => {
  test.each(["postgres", "mail", "identity", "gateway", "provider", "functions", "web"])(
    "%s restarts after it is killed, and no committed data is lost",
    async (name) => {
      await commit(`before ${name}`);
      const pid = stack.services.find((service) => service.name === name)?.pid ?? 0;
      expect(pid).toBeGreaterThan(0);
      process.kill(pid, "SIGKILL");
      await eventually(`a new process for ${name}`, () => {
        const now = readDescription(place.dataDir).services.find((service) => service.name === name);
        return now && now.pid !== pid ? now : undefined;
      });
      await eventually(`"${name} is back" in the log`, () =>
        new RegExp(`${name} +│ is back`).test(runner.said()) ? true : undefined,
      );
      await eventually("a sign-in", async () => ((await signIn()) ? true : undefined));
      expect(await committed()).toContain(`before ${name}`);
      stack = readDescription(place.dataDir);
    },
  );
});

describe("after the runner is killed", () => {
  test("a killed runner leaves no process behind, and the next start has the committed data", async () => {
    await commit("before the runner");
    const pids = stack.services.map(({ pid }) => pid);
    runner.child.kill("SIGKILL");
    await runner.ended();
    await eventually("the end of every process", () =>
      processesOf(place.dataDir, pids).length === 0 ? true : undefined,
    );
    await start();
    expect(await committed()).toContain("before the runner");
    expect(await signIn()).toBe(true);
  });

  test("if the runner and its watchdog are killed, the next start ends the remaining processes", async () => {
    await commit("before both");
    const record = JSON.parse(readFileSync(path.join(place.dataDir, "run.json"), "utf8")) as {
      watchdog: { pid: number };
    };
    const pids = stack.services.map(({ pid }) => pid);
    runner.child.kill("SIGSTOP");
    process.kill(record.watchdog.pid, "SIGKILL");
    runner.child.kill("SIGKILL");
    await runner.ended();
    expect(processesOf(place.dataDir, pids).length).toBeGreaterThanOrEqual(pids.length);
    await start();
    expect(runner.said()).toContain("ended what the run before had left behind");
    expect(processesOf(place.dataDir, []).filter((pid) => pids.includes(pid))).toEqual([]);
    expect(await committed()).toContain("before both");
  });
});

describe("stopping the local stack's runner", () => {
  test("on SIGTERM, the runner ends all processes, exits with code 0 and deletes stack.json", async () => {
    const pids = stack.services.map(({ pid }) => pid);
    runner.child.kill("SIGTERM");
    expect(await runner.ended()).toBe(0);
    expect(processesOf(place.dataDir, pids)).toEqual([]);
    expect(() => readDescription(place.dataDir)).toThrow("ENOENT");
  });

  test("the runner ends all processes even if it is stopped while the stack is starting", async () => {
    runner = startRunner(place.dataDir);
    await eventually("its first service", () => (/postgres +│ up/.test(runner.said()) ? true : undefined));
    runner.child.kill("SIGINT");
    expect(await runner.ended()).toBe(0);
    expect(processesOf(place.dataDir, [])).toEqual([]);
  });
});
