import { setTimeout as sleep } from "node:timers/promises";
import type { Journal } from "../journal.ts";
import type { Random } from "../random.ts";
import type { World } from "../world.ts";

/** The context that each actor gets. */
export interface Stage {
  world: World;
  journal: Journal;
  /** Aborts when traffic should end. */
  ended: AbortSignal;
}

/** A client that performs one action after another. */
export interface Actor {
  name: string;
  random: Random;
  /** Performs the next action. Any error it throws is a finding, except `NoAnswer`. */
  act(): Promise<void>;
  /** Minimum and maximum milliseconds between two actions. */
  pauseMs: readonly [number, number];
}

/** Waits, or returns early when traffic ends. */
export async function pause(ms: number, { ended }: Pick<Stage, "ended">): Promise<void> {
  await sleep(ms, undefined, { signal: ended }).catch(() => undefined);
}
