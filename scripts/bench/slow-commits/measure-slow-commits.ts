import { type ChildProcess, spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { restartWindowMs } from "@gatehousehq/local-stack/runner/supervise";
import type pg from "pg";
import { stallPostgres } from "../../soak/faults/pulses.ts";
import { readStackFile, type Stack } from "../../test/stack.ts";
import { superuserUrl } from "../../test/start-stack.ts";
import { untilSettled } from "../gateway/books.ts";
import { streamBody, wholeBody } from "../gateway/call.ts";
import { createTenants } from "../gateway/tenants.ts";
import type { Progress } from "../progress.ts";
import { markdownTable } from "../report/tables.ts";
import { quantile } from "../statistics.ts";

/** The streams of a case are opened within this time. */
const openedWithinMs = 300;
const strangerEveryMs = 100;
const busyLoops = 2;
const warmUpCalls = 1_000;
const settlePollMs = 50;
const restartLimitMs = 30_000;

/** How commits are slow: each waits for `commit_delay`, or Postgres's processes stop again and again. */
type Slowness = { commitDelayMs: number } | { stoppedMs: number };
type Case = { slowness: Slowness; streams: number; isCold: boolean; isBusy: boolean };
type Answer = { status: number; ms: number };

const allCases: Case[] = [{ commitDelayMs: 20 }, { commitDelayMs: 100 }, { stoppedMs: 300 }].flatMap((slowness) =>
  [300, 2_000].flatMap((streams) =>
    [false, true].flatMap((isCold) => [false, true].map((isBusy) => ({ slowness, streams, isCold, isBusy }))),
  ),
);

/** Returns the cases to measure. A quick run measures the most difficult ones only. */
export function slowCommitCases({ quick }: { quick: boolean }): Case[] {
  return allCases.filter(({ streams, isCold, isBusy }) => !quick || (streams === 300 && isCold && isBusy));
}

type Given = {
  stack: Stack;
  stackFile: string;
  client: pg.Client;
  progress: Progress;
  signal: AbortSignal;
  cases: readonly Case[];
};

/**
 * Opens many streams of one key while commits are slow, and calls of another workspace meanwhile. Returns a table of
 * the refused calls, the times to the first byte and the times until everything was settled.
 */
export async function measureSlowCommits(given: Given): Promise<string> {
  const { stack, stackFile, client, progress, signal, cases } = given;
  const { keys } = await createTenants(client, { stack, count: 2 });
  const rows: string[][] = [];
  await withDatabase(await superuserUrl(stackFile), async (superuser) => {
    for (const one of cases) {
      signal.throwIfAborted();
      progress.begin(`slow commits: ${describe(one).join(", ")}`);
      rows.push(await measureCase(one, { ...given, superuser, keys }));
    }
  });
  return markdownTable(
    [
      "commits",
      "streams",
      "functions",
      "cores",
      "not 200",
      "first byte: p50",
      "p99",
      "max",
      "settled",
      "other workspace: not 200",
      "p50",
      "max",
    ],
    rows,
  );
}

function describe({ slowness, streams, isCold, isBusy }: Case): string[] {
  const slow = "commitDelayMs" in slowness ? `+ ${slowness.commitDelayMs} ms` : `stall ${slowness.stoppedMs} ms`;
  return [slow, String(streams), isCold ? "cold" : "warm", isBusy ? "busy" : "idle"];
}

async function measureCase(
  one: Case,
  given: Given & { superuser: pg.Client; keys: readonly string[] },
): Promise<string[]> {
  const { superuser, client, stackFile, keys } = given;
  const [key = "", otherKey = ""] = keys;
  if (one.isCold) await restartFunctions(stackFile);
  const functions = functionsOf(stackFile);
  const call = (body: string, credential: string) => post(functions.port, { key: credential, body });
  if (!one.isCold) {
    for (let sent = 0; sent < warmUpCalls; sent += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, index) => call(wholeBody, keys[index % 2] ?? "")));
    }
  }
  await untilSettled(client);
  await superuser.query("delete from ai.rate_windows");
  const loops: ChildProcess[] = [];
  const ended = new AbortController();
  const others: Promise<Answer>[] = [];
  try {
    for (let loop = 0; one.isBusy && loop < busyLoops; loop += 1) {
      loops.push(spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
    }
    const slow = slowDown(one.slowness, { ...given, ended: ended.signal });
    await slow.started;
    const startedAt = performance.now();
    const opened: Promise<Answer>[] = [];
    const stranger = setInterval(() => others.push(call(wholeBody, otherKey)), strangerEveryMs);
    for (let stream = 0; stream < one.streams; stream += 1) {
      const dueMs = (stream * openedWithinMs) / one.streams - (performance.now() - startedAt);
      if (dueMs > 1) await sleep(dueMs);
      opened.push(call(streamBody(`slow ${stream}`), key));
    }
    const answers = await Promise.all(opened);
    while ((await openRuns(client)) > 0) await sleep(settlePollMs);
    const settledMs = performance.now() - startedAt;
    clearInterval(stranger);
    ended.abort();
    await slow.ended;
    return [...describe(one), ...figures(answers), seconds(settledMs), ...otherFigures(await Promise.all(others))];
  } finally {
    ended.abort();
    for (const loop of loops) loop.kill("SIGKILL");
    await superuser.query("alter system reset commit_delay");
    await superuser.query("alter system reset commit_siblings");
    await superuser.query("select pg_reload_conf()");
  }
}

/** Slows commits down until `ended`. */
function slowDown(
  slowness: Slowness,
  { superuser, stackFile, ended }: { superuser: pg.Client; stackFile: string; ended: AbortSignal },
): { started: Promise<unknown>; ended: Promise<unknown> } {
  if ("stoppedMs" in slowness) {
    const pid = readStackFile(stackFile).services.find(({ name }) => name === "postgres")?.pid ?? 0;
    const forMs = Number.POSITIVE_INFINITY;
    return { started: sleep(1_000), ended: stallPostgres(pid, { forMs, ended, stoppedMs: slowness.stoppedMs }) };
  }
  const started = (async () => {
    await superuser.query(`alter system set commit_delay = ${slowness.commitDelayMs * 1_000}`);
    await superuser.query("alter system set commit_siblings = 0");
    await superuser.query("select pg_reload_conf()");
    // Backends read the configuration when they are idle or between two statements.
    await sleep(200);
  })();
  return { started, ended: Promise.resolve() };
}

async function openRuns(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ open: number }>(
    `select count(*)::integer as open from ai.runs where status = 'running' and streamed and created_at > now() - interval '1 hour'`,
  );
  return rows[0]?.open ?? 0;
}

function functionsOf(stackFile: string): { pid: number; port: number } {
  const found = readStackFile(stackFile).services.find(({ name }) => name === "functions");
  if (!found?.pid) throw new Error("The stack runs without its functions.");
  return { pid: found.pid, port: found.port };
}

const maxRestarts = 3;
const windowMs = restartWindowMs + 10_000;
const restarts: number[] = [];

/** Ends the functions' process and waits until the stack has started a new one. */
async function restartFunctions(stackFile: string): Promise<void> {
  const { pid } = functionsOf(stackFile);
  // The stack gives up on a service that ends more often. It may take some seconds to end.
  const sinceMs = performance.now() - (restarts.at(-maxRestarts) ?? Number.NEGATIVE_INFINITY);
  if (sinceMs < windowMs) await sleep(windowMs - sinceMs);
  restarts.push(performance.now());
  process.kill(pid, "SIGTERM");
  const deadline = performance.now() + restartLimitMs;
  while (performance.now() < deadline) {
    await sleep(settlePollMs);
    const now = readStackFile(stackFile).services.find(({ name }) => name === "functions");
    if (now?.pid && now.pid !== pid && (await isServing(now.port))) return;
  }
  throw new Error("The functions did not restart.");
}

/** Returns whether the functions answer. A request without a credential opens no database connection. */
async function isServing(port: number): Promise<boolean> {
  return (await post(port, { key: "", body: "{}" })).status === 401;
}

const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });

/** Sends a call. Returns its status, and the time until the first byte of its answer. */
function post(port: number, { key, body }: { key: string; body: string }): Promise<Answer> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    let first: number | undefined;
    const finish = (status: number) => resolve({ status, ms: first ?? performance.now() - startedAt });
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
    };
    const options = { port, host: "127.0.0.1", path: "/chat/completions", method: "POST", headers, agent };
    const sent = request(options, (response) => {
      response.on("data", () => {
        first ??= performance.now() - startedAt;
      });
      response.on("end", () => finish(response.statusCode ?? 0)).on("error", () => finish(0));
    });
    sent.on("error", () => finish(0));
    sent.end(body);
  });
}

function figures(answers: readonly Answer[]): string[] {
  return [
    failures(answers),
    ...[0.5, 0.99, 1].map((share) =>
      seconds(
        quantile(
          answers.map(({ ms }) => ms),
          share,
        ),
      ),
    ),
  ];
}

function otherFigures(answers: readonly Answer[]): string[] {
  return [
    failures(answers),
    ...[0.5, 1].map((share) =>
      seconds(
        quantile(
          answers.map(({ ms }) => ms),
          share,
        ),
      ),
    ),
  ];
}

/** Returns the number of failed calls with each status; 0 stands for a lost connection. */
function failures(answers: readonly Answer[]): string {
  const failed = Map.groupBy(
    answers.filter(({ status }) => status !== 200),
    ({ status }) => status,
  );
  return [...failed].map(([status, those]) => `${those.length} × ${status || "lost"}`).join(", ") || "0";
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(2)} s`;
