import type { ChildProcess } from "node:child_process";
import type { HeldPort } from "../ports.ts";

/** How the runner checks that a service answers: a URL that returns 2xx, or a check that does not throw. */
export type HealthCheck = { url: string } | { check: () => Promise<void> };

/** Describes a process of the stack. */
export type Service = {
  kind: "service";
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** The user and group it runs as, if not ours. */
  uid?: number;
  gid?: number;
  /** Every port that it listens on. The first is the one for people and tests. */
  ports: readonly [HeldPort, ...HeldPort[]];
  dependsOn: string[];
  health: HealthCheck;
  /** How long a start may take until the first successful health check. */
  startLimitMs: number;
  stopSignal: NodeJS.Signals;
  /** How long it may take to stop before it is killed. */
  stopLimitMs: number;
  /** Which of its lines are shown on the terminal. All of them go to its log file. */
  loud?: RegExp;
  /** Runs before every start, including restarts after a crash. */
  beforeStart?: () => Promise<void>;
  /** What to try if it does not stay up. */
  hint?: string;
};

/** Adds a child process (spawned detached) to the run. The child never outlives the run. */
export type Adopt = (name: string, child: ChildProcess) => void;

/** A one-time step between the services' starts. */
export type Task = {
  kind: "task";
  name: string;
  dependsOn: string[];
  run: (adopt: Adopt) => Promise<void>;
};

export type Step = Service | Task;

const seconds = 1_000;
/** Default limits for starting and stopping a service. */
export const limits = { startLimitMs: 30 * seconds, stopSignal: "SIGTERM", stopLimitMs: 8 * seconds } as const;
