import { createRequire } from "node:module";
import path from "node:path";
import { text } from "node:stream/consumers";
import type Autocannon from "autocannon";
import { z } from "zod";
import { installBelow } from "../../install.ts";
import { callSchema, wholeBody } from "../gateway/call.ts";
import { quantilesOf } from "../statistics.ts";

/** Keeps connections busy with autocannon. Reads its configuration from standard input. The warm-up does not count. */
const folder = await installBelow(".", { name: "bench-tools", manifest: { dependencies: { autocannon: "9.0.0" } } });
const autocannon = createRequire(path.resolve(folder, "package.json"))("autocannon") as typeof Autocannon;
const config = z
  .object({ call: callSchema, connections: z.number(), warmUpMs: z.number(), durationMs: z.number() })
  .parse(JSON.parse(await text(process.stdin)));
const { call, connections, warmUpMs, durationMs } = config;
/** How many credentials one connection alternates between. */
const mostEach = 100;
/** The step from one credential to the next. The step is prime, so that the connections reach every credential. */
const stride = 7_919;

const latenciesMs: number[] = [];
let failed = 0;
let startedAt = 0;
let setUp = 0;

const { method = "POST", headers, form } = call;
const body = form ? new URLSearchParams(form).toString() : wholeBody;
const type = form ? "application/x-www-form-urlencoded" : "application/json";
const request =
  method === "GET" ? { method, headers } : { method, headers: { ...headers, "content-type": type }, body };

const options: Autocannon.Options = {
  ...request,
  url: call.url,
  connections,
  duration: (warmUpMs + durationMs) / 1_000,
  sampleInt: 50,
  timeout: 20,
  setupClient(client) {
    const { authorizations } = call;
    if (authorizations.length === 0) return;
    const first = setUp * mostEach;
    setUp += 1;
    const turns = Array.from(
      { length: Math.min(mostEach, authorizations.length) },
      (_, turn) => authorizations[((first + turn) * stride) % authorizations.length] ?? "",
    );
    client.setRequests(turns.map((authorization) => ({ ...request, headers: { ...request.headers, authorization } })));
  },
};

function run(): Promise<Autocannon.Result> {
  return new Promise((resolve, reject) => {
    const load = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)));
    load.on("start", () => {
      startedAt = performance.now();
    });
    load.on("response", (_client, status, _bytes, latencyMs) => count(status, latencyMs));
    load.on("reqError", () => {
      if (isMeasured()) failed += 1;
    });
  });
}

function isMeasured(): boolean {
  const elapsedMs = performance.now() - startedAt;
  return elapsedMs >= warmUpMs && elapsedMs <= warmUpMs + durationMs;
}

function count(status: number, latencyMs: number): void {
  if (!isMeasured()) return;
  if (status === 200) latenciesMs.push(latencyMs);
  else failed += 1;
}

const all = await run();
process.stdout.write(
  JSON.stringify({
    perSecond: latenciesMs.length / (durationMs / 1_000),
    quantilesMs: quantilesOf(latenciesMs, failed),
    answered: latenciesMs.length,
    failed,
    answeredInAll: all["2xx"],
  }),
);
