import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { errorOf, messageOf, PortTaken, StackError } from "../errors.ts";
import { waitUntilHealthy } from "./health.ts";
import { groupListens } from "./listeners.ts";
import type { Log } from "./log.ts";
import { endGroups, type OwnedProcess, signalGroup, startOf } from "./processes.ts";
import type { Service } from "./service.ts";

/** A service that exits unexpectedly more often than this within the window stops the stack. */
const restartLimit = 3;
export const restartWindowMs = 60_000;
/** How long the other processes of a group may take to end after its leader. */
const groupEndLimitMs = 1_000;

export type Supervised = {
  service: Service;
  /** Returns the service's current process, or undefined while the service is down. */
  owned: () => OwnedProcess | undefined;
  /**
   * Resolves at the first successful health check. Rejects if the service does not stay up, with PortTaken if it cannot
   * listen.
   */
  start: () => Promise<void>;
  /** Asks the service to stop, and kills it if that takes too long. */
  stop: () => Promise<void>;
  /** Kills the service immediately. */
  kill: () => void;
};

type Deps = {
  log: Log;
  onSpawn: (owned: OwnedProcess) => void;
  onExit: (owned: OwnedProcess) => void;
  /** Called once if a service that had started does not stay up. */
  onGiveUp: (error: Error) => void;
};

/** Returns how many of these exit times (in milliseconds) are within the window. */
export function countRecentExits(exitsAtMs: readonly number[], nowMs: number): number {
  return exitsAtMs.filter((at) => nowMs - at < restartWindowMs).length;
}

/** Keeps one service running. */
export function supervise(service: Service, { log, onSpawn, onExit, onGiveUp }: Deps): Supervised {
  let child: ChildProcess | undefined;
  let owned: OwnedProcess | undefined;
  let exited: Promise<void> = Promise.resolve();
  let stopping = false;
  let started = false;
  const exitTimes: number[] = [];
  const numbers = service.ports.map(({ port }) => port);

  function launch(): void {
    const { uid, gid } = service;
    const launched = spawn(service.command, service.args, {
      cwd: service.cwd,
      env: service.env as NodeJS.ProcessEnv,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    });
    child = launched;
    const identity: OwnedProcess | undefined = launched.pid
      ? {
          pid: launched.pid,
          startedAt: startOf(launched.pid) ?? "",
          name: service.name,
          stopSignal: service.stopSignal,
        }
      : undefined;
    owned = identity;
    if (identity) onSpawn(identity);
    log.follow(service.name, launched.stdout, service.alerts);
    log.follow(service.name, launched.stderr, service.alerts);
    exited = new Promise((resolve) => {
      const onEnd = (cause: string) => {
        if (child !== launched) return;
        child = undefined;
        owned = undefined;
        if (identity) {
          signalGroup(identity.pid, "SIGKILL");
          onExit(identity);
        }
        resolve();
        if (!stopping) exitTimes.push(Date.now());
        if (!stopping && started) void revive(cause);
      };
      launched.once("error", (error) => onEnd(messageOf(error)));
      launched.once("exit", (code, signal) => onEnd(signal ? `was ended by ${signal}` : `exited with code ${code}`));
    });
  }

  async function bringUp(): Promise<void> {
    try {
      while (!stopping && !started) await startOnce();
    } finally {
      await Promise.all(service.ports.map((one) => one.release()));
    }
  }

  /** Starts the process. Sets `started` once the process answers and its own process group listens on the ports. */
  async function startOnce(): Promise<void> {
    await service.beforeStart?.();
    await Promise.all(service.ports.map((one) => one.handOver()));
    if (stopping) return;
    launch();
    const launched = child;
    const group = owned;
    const isRunning = () => child === launched && !stopping;
    const failure = await waitUntilHealthy(service.health, {
      limitMs: service.startLimitMs,
      isRunning,
      listens: () => groupListens(launched?.pid ?? 0, numbers),
    });
    started = failure === undefined && isRunning();
    if (started || stopping) return;
    const timedOut = isRunning();
    if (timedOut) {
      signalGroup(launched?.pid ?? 0, "SIGKILL");
      await exited;
    }
    await refuseLostPort(group);
    if (timedOut) {
      throw new StackError(
        describe(`did not answer within ${service.startLimitMs / 1000} s of its start (${failure}).`),
      );
    }
    const recent = countRecentExits(exitTimes, Date.now());
    if (recent > restartLimit) throw new StackError(describe("does not stay up."));
    await sleep(100 * 2 ** recent);
  }

  /** @throws PortTaken if the service has exited and another process has one of its ports */
  async function refuseLostPort(group: OwnedProcess | undefined): Promise<void> {
    if (group) await endGroups([group], groupEndLimitMs);
    for (const one of service.ports) {
      if (await one.isTaken()) throw new PortTaken(`port ${one.port} was taken before ${service.name} could listen`);
    }
  }

  function describe(what: string): string {
    const tail = log.tail(service.name);
    return [
      `${service.name} ${what}`,
      ...(tail.length > 0 ? ["Its last lines:", ...tail.map((line) => `  ${line}`)] : []),
      `Its whole log: ${log.fileOf(service.name)}`,
      ...(service.hint ? [service.hint] : []),
    ].join("\n");
  }

  async function revive(cause: string): Promise<void> {
    started = false;
    try {
      const recent = countRecentExits(exitTimes, Date.now());
      if (recent > restartLimit) {
        throw new StackError(describe(`${cause}, and died ${recent} times in ${restartWindowMs / 1000} s. Giving up.`));
      }
      log.print(service.name, `${cause}, starting it again`);
      await sleep(50);
      await bringUp();
      if (!stopping) log.print(service.name, "is back");
    } catch (error) {
      if (!stopping) onGiveUp(errorOf(error));
    }
  }

  return {
    service,
    owned: () => owned,
    start: bringUp,
    async stop() {
      stopping = true;
      const pid = child?.pid;
      if (pid === undefined) return;
      signalGroup(pid, service.stopSignal);
      const late = setTimeout(() => {
        log.print(service.name, `did not stop within ${service.stopLimitMs / 1000} s, killing it`);
        signalGroup(pid, "SIGKILL");
      }, service.stopLimitMs);
      await exited;
      clearTimeout(late);
    },
    kill() {
      stopping = true;
      if (child?.pid !== undefined) signalGroup(child.pid, "SIGKILL");
    },
  };
}
