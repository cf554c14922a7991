import { Agent, request } from "node:http";
import { readTree } from "../process-tree.ts";
import { median } from "../statistics.ts";
import { busyMs, type TracedWeb, toIdentity } from "./traced-web.ts";

/**
 * Measurements of repeated requests for one page. `ownMs` is the duration of each request without the time spent
 * waiting for the backend. `cpuMs` has one value per round: the web server's CPU time per request, including work done
 * while waiting. It is empty if the system doesn't report CPU time.
 */
export type Readings = {
  ownMs: number[];
  inAllMs: number[];
  cpuMs: number[];
  identityCalls: number;
  dataCalls: number;
};

const rounds = 3;

export function roundsOf(readings: readonly number[]): number[][] {
  const inRound = Math.ceil(readings.length / rounds);
  return Array.from({ length: rounds }, (_, round) => readings.slice(round * inRound, (round + 1) * inRound));
}

/**
 * Reads a page repeatedly on one connection, to the last byte, after a warm-up.
 * @param given.warmUp the number of first readings that are not counted, because V8 still compiles during them
 * @returns the times, the most identity backend calls of any reading, and the median number of Data API calls
 * @throws Error if an answer isn't 200
 */
export async function timeReads(
  web: Pick<TracedWeb, "url" | "pid" | "takeCalls">,
  given: { path: string; cookie: string; readings: number; warmUp: number },
): Promise<Readings> {
  const { path, cookie, readings, warmUp } = given;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const seen: Readings = { ownMs: [], inAllMs: [], cpuMs: [], identityCalls: 0, dataCalls: 0 };
  const dataCalls: number[] = [];
  const url = new URL(path, web.url);
  try {
    for (let reading = 0; reading < warmUp; reading += 1) await read(url, { agent, cookie });
    await web.takeCalls();
    for (let round = 0; round < rounds; round += 1) {
      const before = readTree(web.pid)?.cpuMs;
      const inRound = Math.ceil(readings / rounds);
      for (let reading = 0; reading < inRound; reading += 1) {
        const tookMs = await read(url, { agent, cookie });
        const calls = await web.takeCalls();
        seen.inAllMs.push(tookMs);
        seen.ownMs.push(tookMs - busyMs(calls));
        seen.identityCalls = Math.max(seen.identityCalls, calls.filter(toIdentity).length);
        dataCalls.push(calls.filter((call) => !toIdentity(call)).length);
      }
      const after = readTree(web.pid)?.cpuMs;
      if (before !== undefined && after !== undefined) seen.cpuMs.push((after - before) / inRound);
    }
  } finally {
    agent.destroy();
  }
  // The server's own background work occasionally makes calls during a reading. The median ignores them.
  return { ...seen, dataCalls: median(dataCalls) };
}

function read(url: URL, { agent, cookie }: { agent: Agent; cookie: string }): Promise<number> {
  const headers = { cookie, accept: "text/html", "x-forwarded-for": "2001:db8::1" };
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    request(url, { agent, headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${url.pathname} answered ${response.statusCode}.`));
      response.resume().once("end", () => resolve(performance.now() - startedAt));
    })
      .once("error", reject)
      .end();
  });
}
