import { Agent, request } from "node:http";
import { busyMs, type TracedWeb, toIdentity } from "./traced-web.ts";

/** Readings of one page. `ownMs` is what is left of each without the time in which the backend was waited for. */
export type Readings = { ownMs: number[]; inAllMs: number[]; identityCalls: number; dataCalls: number };

/**
 * Reads a page again and again on one connection, to the last byte, once warm.
 * @returns with the times the most calls that one reading made
 * @throws Error where it is not answered with 200
 */
export async function timeReads(
  { url, takeCalls }: Pick<TracedWeb, "url" | "takeCalls">,
  { path, cookie, readings }: { path: string; cookie: string; readings: number },
): Promise<Readings> {
  const warmUp = Math.ceil(readings / 4);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const seen: Readings = { ownMs: [], inAllMs: [], identityCalls: 0, dataCalls: 0 };
  try {
    for (let reading = 0; reading < warmUp + readings; reading += 1) {
      await takeCalls();
      const tookMs = await read(new URL(path, url), { agent, cookie });
      const calls = await takeCalls();
      if (reading < warmUp) continue;
      seen.inAllMs.push(tookMs);
      seen.ownMs.push(tookMs - busyMs(calls));
      seen.identityCalls = Math.max(seen.identityCalls, calls.filter(toIdentity).length);
      seen.dataCalls = Math.max(seen.dataCalls, calls.filter((call) => !toIdentity(call)).length);
    }
  } finally {
    agent.destroy();
  }
  return seen;
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
