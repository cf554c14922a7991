import { spawn } from "node:child_process";
import path from "node:path";
import { text } from "node:stream/consumers";
import { z } from "zod";
import type { Call } from "./call.ts";

const folder = path.resolve(import.meta.dirname, "../processes");

const closedLoop = z.object({
  perSecond: z.number(),
  /** The latency of a failed request is infinite, which JSON represents as null. */
  quantilesMs: z.array(
    z
      .number()
      .nullable()
      .transform((ms) => ms ?? Number.POSITIVE_INFINITY),
  ),
  /** Requests answered within the measured time. `failed` counts the failures within the same time. */
  answered: z.number(),
  failed: z.number(),
  /**
   * All answers, including those during the warm-up and after the measured time, because CPU time was spent on them
   * too.
   */
  answeredInAll: z.number(),
});
const openLoop = z.object({
  latenciesMs: z.array(z.number()),
  sentLateMs: z.array(z.number()),
  failed: z.number(),
  firstFailure: z.string().optional(),
});
const streamLoad = z.object({
  streams: z.array(
    z.object({
      name: z.string(),
      firstMs: z.number().nullable(),
      chunks: z.number(),
      sha256: z.string(),
      whole: z.boolean(),
    }),
  ),
});

export type ClosedLoop = z.infer<typeof closedLoop>;
export type OpenLoop = z.infer<typeof openLoop>;
export type StreamLoad = z.infer<typeof streamLoad>;
type Span = { call: Call; warmUpMs: number; durationMs: number };

/** Keeps a number of connections busy, and returns the measured throughput. */
export async function runClosedLoop(config: Span & { connections: number }, signal: AbortSignal): Promise<ClosedLoop> {
  return closedLoop.parse(await run("closed-loop.ts", config, signal));
}

/** Sends requests at a fixed rate, and returns the measured latency. */
export async function runOpenLoop(config: Span & { perSecond: number }, signal: AbortSignal): Promise<OpenLoop> {
  return openLoop.parse(await run("open-loop.ts", config, signal));
}

export async function runStreams(
  config: { call: Call; names: string[]; staggerMs: number },
  signal: AbortSignal,
): Promise<StreamLoad> {
  return streamLoad.parse(await run("streams.ts", config, signal));
}

/**
 * Runs one of our load processes.
 * @throws Error with the end of the process's error output if it fails
 */
async function run(file: string, config: object, signal: AbortSignal): Promise<unknown> {
  const child = spawn(process.execPath, [path.join(folder, file)], { stdio: ["pipe", "pipe", "pipe"], signal });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  child.stdin.on("error", () => {});
  child.stdin.end(JSON.stringify(config));
  const [said, complaint, code] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
  if (code !== 0) throw new Error(`${file} ended with code ${code}: ${complaint.slice(-1_000)}`);
  return JSON.parse(said);
}
