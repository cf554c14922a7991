import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { Worker } from "node:worker_threads";
import { z } from "zod";
import { callSchema, wholeBody } from "../gateway/call.ts";
import { createSchedule } from "../gateway/schedule.ts";

/**
 * Sends requests at a fixed rate, independently of the answers. Reads its configuration from standard input. Answers to
 * requests that are due in the warm-up do not count. A request never waits for a free connection, but opens a new
 * connection instead.
 */
const config = z
  .object({ call: callSchema, perSecond: z.number(), warmUpMs: z.number(), durationMs: z.number() })
  .parse(JSON.parse(await text(process.stdin)));
const { call, perSecond, warmUpMs, durationMs } = config;
const target = new URL(call.url);
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, scheduling: "fifo" });
const schedule = createSchedule({ perSecond, durationMs: warmUpMs + durationMs });
const leadMs = 50;
const latenciesMs: number[] = [];
const sentLateMs: number[] = [];
let failed = 0;
let firstFailure: string | undefined;

function ask(index: number): Promise<void> {
  const authorization = call.authorizations[index % call.authorizations.length] ?? "";
  const headers = {
    ...call.headers,
    authorization,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(wholeBody),
  };
  const counts = schedule.dueMs(index) >= warmUpMs;
  if (counts) sentLateMs.push(elapsedMs() - schedule.dueMs(index));
  return new Promise((resolve) => {
    const end = (failure?: string) => {
      if (counts && failure === undefined) latenciesMs.push(elapsedMs() - schedule.dueMs(index));
      if (counts && failure !== undefined) failed += 1;
      firstFailure ??= failure;
      resolve();
    };
    request(target, { method: "POST", agent, headers }, (response) => {
      if (response.statusCode === 200) response.resume().once("end", () => end());
      else
        text(response).then(
          (body) => end(`${response.statusCode} ${body.slice(0, 300)}`),
          () => {},
        );
      response.once("error", (error) => end(error.message));
    })
      .once("error", (error) => end(error.message))
      .end(wholeBody);
  });
}

const startsAt = process.hrtime.bigint() + BigInt(leadMs * 1e6);
const elapsedMs = () => Number(process.hrtime.bigint() - startsAt) / 1e6;
const metronome = new Worker(new URL("./metronome.ts", import.meta.url), {
  workerData: { everyMs: 1_000 / perSecond, beats: schedule.count, startsAt },
});
const asked: Promise<void>[] = [];
await new Promise<void>((resolve, reject) => {
  metronome.on("message", () => asked.push(...schedule.takeDue(elapsedMs()).map(ask)));
  metronome.once("error", reject);
  metronome.once("exit", () => resolve());
});
asked.push(...schedule.takeDue(Number.POSITIVE_INFINITY).map(ask));
await Promise.all(asked);
agent.destroy();
process.stdout.write(JSON.stringify({ latenciesMs, sentLateMs, failed, firstFailure }));
