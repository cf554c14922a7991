import { get } from "node:http";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../scripts/test/identity-backend.ts";
import type { WebProcess } from "./testing/web-process.ts";

const sessionPath = "/api/v1/auth/session";
const stateCall = "/rest/v1/rpc/device_session_state";
/** A scheduled task's call, once a second. */
const scheduledCall = "/rest/v1/rpc/claim_logout_notices";
/** Preloaded into each process: writes its id and the path of each of its calls to the output. */
const tellCalls = `data:text/javascript,${encodeURIComponent(`
  import { subscribe } from "node:diagnostics_channel";
  subscribe("http.client.request.start", ({ request }) => {
    console.log("process " + process.pid + " calls " + request.path);
  });
`)}`;
const patience = { timeout: 20_000 };

let backend: IdentityBackend;
let web: WebProcess;

beforeAll(async () => {
  backend = await startIdentityBackend();
  // Scheduled tasks must not act for the stack, whose database this is.
  backend.rows = "down";
  web = await backend.startWeb({
    env: { WEB_PROCESSES: "2", APP_SESSION_SECRET: "a secret of apps, which these tests never open" },
    nodeOptions: ["--import", tellCalls],
  });
  await untilServing(2);
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

const lines = (after = 0) => web.output().slice(after).split("\n");
const untilServing = (times: number) =>
  vi.waitUntil(() => lines().filter((line) => line.startsWith("listening on")).length === times, patience);
/** Returns the ids of the processes that made a call, once for each call. */
const callers = (path: string, after = 0) =>
  lines(after).flatMap((line) => (line.endsWith(` calls ${path}`) ? [Number(line.split(" ")[1])] : []));
/** Returns the ids of the processes that have run the scheduled tasks, in their order. */
const schedulers = () => lines().flatMap((line) => Number(/^process (\d+) runs the sched/.exec(line)?.[1]) || []);
const isGone = (pid: number) => {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
};

/** Waits until the `count`th process runs the tasks, and has run one twice. @returns its id */
async function nextScheduler(count: number): Promise<number> {
  await vi.waitUntil(() => schedulers().length === count, patience);
  const pid = schedulers().at(-1) ?? 0;
  const takenOver = web.output().lastIndexOf(`process ${pid} runs the sched`);
  await vi.waitUntil(() => callers(scheduledCall, takenOver).length >= 2, patience);
  expect(new Set(callers(scheduledCall, takenOver))).toEqual(new Set([pid]));
  return pid;
}

/** Begins two requests, one at each process, which wait for the database. */
async function beginRequests(): Promise<{ answers: Promise<number | null>[]; pids: number[] }> {
  const cookie = await backend.cookieOf(await backend.session());
  backend.state = "hang";
  const before = web.output().length;
  const url = `http://127.0.0.1:${new URL(web.base).port}${sessionPath}`;
  const answers = [1, 2].map(
    () =>
      // Each on a new connection, which goes to the next process.
      new Promise<number | null>((resolve) => {
        get(url, { agent: false, headers: { cookie } }, (response) => {
          resolve(response.resume().statusCode ?? null);
        }).once("error", () => resolve(null));
      }),
  );
  await vi.waitUntil(() => callers(stateCall, before).length === 2, patience);
  return { answers, pids: callers(stateCall, before) };
}

test("a killed process fails only its own requests and is replaced, and its scheduled tasks move, running in one process at a time", async () => {
  const first = await nextScheduler(1);
  const { answers, pids } = await beginRequests();
  expect(new Set(pids).size).toBe(2);
  process.kill(first, "SIGKILL");
  expect((await Promise.all(answers)).toSorted()).toEqual([503, null]);
  backend.state = "ok";
  const second = await nextScheduler(2);
  expect(second).not.toBe(first);
  await untilServing(3);
  expect(web.output()).toContain(`error process ${first} ended with SIGKILL`);
});

test("a process that drains hands the scheduled tasks on and is replaced", async () => {
  const before = schedulers().at(-1) ?? 0;
  process.kill(before, "SIGTERM");
  expect(await nextScheduler(3)).not.toBe(before);
  await untilServing(4);
  await vi.waitUntil(() => isGone(before), patience);
});

test("SIGTERM completes the requests of all processes, and ends with 0 without leaving a process", async () => {
  const { answers, pids } = await beginRequests();
  expect(new Set(pids).size).toBe(2);
  const stopped = web.stop();
  expect(await Promise.all(answers)).toEqual([503, 503]);
  expect(await stopped).toBe(0);
  expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
});
