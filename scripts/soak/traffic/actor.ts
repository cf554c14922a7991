import { setTimeout as sleep } from "node:timers/promises";
import type { Journal } from "../journal.ts";
import type { Random } from "../random.ts";
import type { World } from "../world.ts";

/** What everybody has who makes traffic. */
export interface Stage {
  world: World;
  journal: Journal;
  /** Falls when traffic is to end. */
  ended: AbortSignal;
}

/** Somebody who does one thing after the other. */
export interface Actor {
  name: string;
  random: Random;
  /** Does the next thing. What it throws is a finding, but for an answer that did not come. */
  act(): Promise<void>;
  /** Milliseconds between two things, at least and at most. */
  pauseMs: readonly [number, number];
}

/** Waits, or ends early with the traffic. */
export async function pause(ms: number, { ended }: Pick<Stage, "ended">): Promise<void> {
  await sleep(ms, undefined, { signal: ended }).catch(() => undefined);
}
