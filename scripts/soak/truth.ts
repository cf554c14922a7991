import { z } from "zod";
import { NoAnswer } from "./journal.ts";

const call = z.object({
  call: z.number(),
  requestId: z.string().nullable(),
  model: z.string(),
  startedAt: z.string(),
  endedAt: z.string().nullable(),
  status: z.number().nullable(),
  usage: z.object({ input: z.number(), cachedInput: z.number(), output: z.number(), reasoning: z.number() }),
  usageReported: z.boolean(),
  aborted: z.boolean(),
});
/** A call as recorded by the provider. */
export type ProviderCall = z.infer<typeof call>;

const readIntervalMs = 5_000;

export interface TruthReader {
  /** Returns all calls up to now. @throws NoAnswer */
  finish(): Promise<ProviderCall[]>;
}

/** Collects the provider's own record of every call before the provider forgets it. */
export function followTruth(provider: string): TruthReader {
  const calls = new Map<number, ProviderCall>();
  /** All calls up to this number have ended. */
  let settled = 0;

  async function read(): Promise<void> {
    const response = await fetch(`${provider}/truth?after=${settled}`);
    if (!response.ok) throw new NoAnswer(String(response.status));
    for (const one of z.object({ calls: z.array(call) }).parse(await response.json()).calls) calls.set(one.call, one);
    while (calls.get(settled + 1)?.endedAt) settled += 1;
  }

  const timer = setInterval(() => void read().catch(() => undefined), readIntervalMs);
  return {
    async finish() {
      clearInterval(timer);
      await read();
      return [...calls.values()];
    },
  };
}
