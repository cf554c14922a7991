import { setImmediate } from "node:timers";
import { z } from "zod";
import { createBatchQueue } from "./batch-queue.ts";
import type { Connections } from "./connections.ts";

const maxBatchCalls = 128;
/** Few, so that connections remain for other statements, also with many limited providers. */
const maxConcurrentBatches = 2;

/** A call in the argument of `ai.take_provider_calls`. Its tokens are its maximum input plus its output limit. */
export type ProviderTake = {
  provider: string;
  input_bytes: number;
  images: number;
  audio_seconds: number | undefined;
  output_tokens: number;
  /** The maximum number of text tokens. Absent if the catalogue states none. */
  context_window: number | undefined;
  /** How long the call waits for room. */
  wait_ms: number;
};

const takenCalls = z.array(z.object({ taken: z.boolean(), wait_ms: z.number().nullable() }));

/**
 * Whether a call was taken from its provider's limits. It may be made after `wait_ms`. If it was not taken, it would fit
 * after `wait_ms`, or never if that is null.
 */
export type TakenCall = z.infer<typeof takenCalls>[number];

/** Creates a function that takes a call from its provider's limits, in a batch with others. */
export function createTakeQueue({ call, waitMs }: { call: Connections["call"]; waitMs: number }) {
  return createBatchQueue<ProviderTake, TakenCall>({
    async send(calls, limits) {
      return takenCalls.parse(JSON.parse(await call("ai.take_provider_calls", calls, limits.waitMs)));
    },
    laneOf: ({ provider }) => provider,
    maxBatch: maxBatchCalls,
    maxBatches: maxConcurrentBatches,
    waitMs,
    gather: setImmediate,
  }).ask;
}
