import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { curveShares } from "../statistics.ts";
import { type Call, wholeBody } from "./call.ts";
import type { ClosedLoop } from "./load.ts";

const execute = promisify(execFile);
const summary = z.object({
  requests: z.number(),
  durationUs: z.number(),
  failed: z.number(),
  quantilesUs: z.array(z.number()),
});

/** Where wrk is installed, by PATH. */
export function findWrk(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return (env.PATH ?? "")
    .split(path.delimiter)
    .map((directory) => path.join(directory, "wrk"))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** One thread of wrk, whose connections take turns with the credentials; its warm-up is a run of its own before. */
export async function runWrk(
  wrk: string,
  config: { call: Call; connections: number; warmUpMs: number; durationMs: number },
  signal: AbortSignal,
): Promise<ClosedLoop> {
  const { call, connections, warmUpMs, durationMs } = config;
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-wrk-"));
  try {
    const script = path.join(directory, "load.lua");
    await writeFile(script, luaScript(call), { mode: 0o600 });
    const load = async (ms: number) => {
      // wrk knows whole seconds.
      const seconds = Math.max(1, Math.round(ms / 1_000));
      const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "20s", "-s", script, call.url];
      const { stdout } = await execute(wrk, args, { signal });
      return summary.parse(JSON.parse(stdout.slice(stdout.indexOf("\n{"))));
    };
    const warmUp = await load(warmUpMs);
    const { requests, durationUs, failed, quantilesUs } = await load(durationMs);
    return {
      perSecond: (requests - failed) / (durationUs / 1e6),
      quantilesMs: quantilesUs.map((us) => us / 1_000),
      answered: requests - failed,
      failed,
      answeredInAll: requests - failed + warmUp.requests - warmUp.failed,
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** What wrk runs: each request made beforehand, and a summary as JSON at the end. */
function luaScript({ headers, authorizations }: Call): string {
  const set = Object.entries({ ...headers, "Content-Type": "application/json" }).map(
    ([name, value]) => `wrk.headers[${quote(name)}] = ${quote(value)}`,
  );
  const shares = curveShares.map((share) => share * 100).join(", ");
  return `
wrk.method = "POST"
wrk.body = ${quote(wholeBody)}
${set.join("\n")}
local credentials = { ${authorizations.map(quote).join(", ")} }
local requests = {}
local turn = 0
function init()
  for at, credential in ipairs(credentials) do
    wrk.headers["Authorization"] = credential
    requests[at] = wrk.format()
  end
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local quantiles = {}
  for at, share in ipairs({ ${shares} }) do
    quantiles[at] = string.format("%d", share >= 100 and latency.max or latency:percentile(share))
  end
  io.write(string.format('\\n{"requests":%d,"durationUs":%d,"failed":%d,"quantilesUs":[%s]}\\n',
    summary.requests, summary.duration, failed, table.concat(quantiles, ",")))
end
`;
}

/** A string of Lua. */
function quote(text: string): string {
  return JSON.stringify(text);
}
