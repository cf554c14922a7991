import type { ChildProcess } from "node:child_process";
import type { HeldPort } from "../ports.ts";

/** How the runner learns that a service answers: a URL that answers 2xx, or a check that does not throw. */
export type HealthCheck = { url: string } | { check: () => Promise<void> };

/** A process of the stack, as data. */
export type Service = {
  kind: "service";
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** Who it runs as, where that is not us. */
  uid?: number;
  gid?: number;
  /** Every port that it listens on; people and tests find it on the first. */
  ports: readonly [HeldPort, ...HeldPort[]];
  dependsOn: string[];
  health: HealthCheck;
  /** How long a start may take until the first good health check. */
  startLimitMs: number;
  stopSignal: NodeJS.Signals;
  /** How long it may take to stop before it is killed. */
  stopLimitMs: number;
  /** Which of its lines are worth a place on the terminal; all of them go to its log file. */
  loud?: RegExp;
  /** Runs before every start, also after a crash. */
  beforeStart?: () => Promise<void>;
  /** What to try when it does not stay up. */
  hint?: string;
};

/** Takes a child process (spawned detached) into the run: whatever happens, it does not outlive it. */
export type Adopt = (name: string, child: ChildProcess) => void;

/** Something to do once, in its place among the services. */
export type Task = {
  kind: "task";
  name: string;
  dependsOn: string[];
  run: (adopt: Adopt) => Promise<void>;
};

export type Step = Service | Task;

const seconds = 1_000;
/** How long a service of the stack may take to start and to stop, unless it says otherwise. */
export const limits = { startLimitMs: 30 * seconds, stopSignal: "SIGTERM", stopLimitMs: 8 * seconds } as const;
