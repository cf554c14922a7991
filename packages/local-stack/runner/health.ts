import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../errors.ts";
import type { HealthCheck } from "./service.ts";

const intervalMs = 40;
const oneCheckMs = 3_000;

async function checkOnce(health: HealthCheck): Promise<void> {
  if ("check" in health) return health.check();
  const response = await fetch(health.url, { signal: AbortSignal.timeout(oneCheckMs), redirect: "error" });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${health.url} answered ${response.status}`);
}

/**
 * Waits until the service answers, and checks that the answer does not come from another process that took its port.
 * @returns undefined once the service answers, or the last failure's text if `limitMs` has passed or `stillRuns`
 * returns false
 */
export async function waitUntilHealthy(
  health: HealthCheck,
  options: { limitMs: number; isRunning: () => boolean; listens: () => boolean },
): Promise<string | undefined> {
  const deadline = performance.now() + options.limitMs;
  let failure = "was not asked";
  while (options.isRunning() && performance.now() < deadline) {
    try {
      await checkOnce(health);
      if (options.listens()) return undefined;
      throw new Error("another process answers in its place");
    } catch (error) {
      failure = messageOf(error);
      await sleep(intervalMs);
    }
  }
  return failure;
}
