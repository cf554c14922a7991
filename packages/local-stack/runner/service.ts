import type { ChildProcess } from "node:child_process";
import type { HeldPort } from "../ports.ts";

/** How the runner checks a service: a URL that returns 2xx, or a check that does not throw. */
export type HealthCheck = { url: string } | { check: () => Promise<void> };

/** Describes a process of the stack. */
export type Service = {
  kind: "service";
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** The user and group that the service runs as, if not ours. */
  uid?: number;
  gid?: number;
  /** All ports that the service listens on. The first is the one that people and tests use. */
  ports: readonly [HeldPort, ...HeldPort[]];
  dependsOn: string[];
  health: HealthCheck;
  /** The time limit for a start, up to the first successful health check. */
  startLimitMs: number;
  stopSignal: NodeJS.Signals;
  /** The time limit for a stop, after which the service is killed. */
  stopLimitMs: number;
  /** Selects the service's lines that are shown on the terminal. All lines go to its log file. */
  alerts?: RegExp;
  /** Runs before every start, including restarts after a crash. */
  beforeStart?: () => Promise<void>;
  /** Advice to print if the service does not stay up. */
  hint?: string;
};

/** Adds a child process (spawned detached) to the run. The child never outlives the run. */
export type Adopt = (name: string, child: ChildProcess) => void;

/** A step that runs once, after the steps it depends on. */
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
