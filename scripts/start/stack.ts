import path from "node:path";
import { errorOf, PortTaken } from "@gatehousehq/local-stack/errors";
import { describeTaken, type HeldPorts, holdPorts, numbersOf, releaseAll } from "@gatehousehq/local-stack/ports";
import { createLog, type Log, type Terminal } from "@gatehousehq/local-stack/runner/log";
import type { OwnedProcess } from "@gatehousehq/local-stack/runner/processes";
import { createRun, type Run } from "@gatehousehq/local-stack/runner/run";
import { type RunRecord, takeDataDir } from "@gatehousehq/local-stack/runner/run-record";
import type { Step } from "@gatehousehq/local-stack/runner/service";
import { wishedWebPort } from "./addresses.ts";
import { prepareDataDir } from "./data-dir.ts";
import { removeDescription, type StackDescription, writeDescription } from "./description.ts";
import type { Environment } from "./environment.ts";
import type { Options } from "./options.ts";

export type StartOptions = {
  root: string;
  options: Options;
  environment: Environment;
  terminal: Terminal;
  /** Called if a service keeps failing and is not restarted again. */
  onGiveUp: (error: Error) => void;
};

/** A stack that owns its data directory. Nothing runs before `start`. */
export type Stack = {
  /** @returns the running stack, or undefined if it was stopped before it was ready */
  start: () => Promise<StackDescription | undefined>;
  stop: () => Promise<void>;
  kill: () => void;
};

/** The services and tasks of a stack that uses the given ports. */
export type Plan = {
  steps: readonly Step[];
  /** The stack's URL, shown when someone tries to start a second stack. */
  url: string;
  /** Describes the running stack, given its processes. */
  describe: (services: StackDescription["services"]) => StackDescription;
};

/** Plans a stack for the given ports. Called again with other ports if a service loses its port to another process. */
export type Planner = {
  plan: (held: HeldPorts) => Promise<Plan>;
  /** Frees the resources that all plans share. Called when the stack stops. */
  onStop: () => void;
};

export type Opened = { dataDir: string; log: Log; record: RunRecord };

/**
 * Reserves the data directory for this run.
 * @throws StackError if another run uses the directory, or we cannot write to it
 */
export async function openDataDir({ options, terminal }: StartOptions): Promise<Opened> {
  const dataDir = path.resolve(options.dataDir);
  prepareDataDir(dataDir);
  const log = createLog({ directory: path.join(dataDir, "logs"), terminal, verbose: options.verbose });
  const record = await takeDataDir({
    dataDir,
    onLeftover: (names) => log.print("stack", `ended what the run before had left behind: ${names.join(", ")}`),
  });
  removeDescription(dataDir);
  return { dataDir, log, record };
}

/**
 * Creates a stack from `plan`. When a service loses its port to another process, the whole stack restarts with a new
 * plan and another port, since addresses are in the settings of many services and in the database.
 */
export function createStack(
  { options, environment, onGiveUp }: Pick<StartOptions, "options" | "environment" | "onGiveUp">,
  { dataDir, log, record }: Opened,
  { plan, onStop }: Planner,
): Stack {
  let wished = { ...options.ports };
  if (wished.web !== 0) wished.web = wishedWebPort(environment.settings) ?? wished.web;
  let run: Run | undefined;
  let ready = false;
  let stopped = false;

  async function start(): Promise<StackDescription | undefined> {
    while (!stopped) {
      const { held, taken } = await holdPorts(wished);
      try {
        wished = numbersOf(held);
        const current = await plan(held);
        const used = new Set(current.steps.flatMap((step) => (step.kind === "service" ? step.ports : [])));
        await Promise.all(Object.values(held).map((one) => (used.has(one) ? undefined : one.release())));
        for (const one of taken) if (used.has(held[one.name])) log.print("stack", describeTaken(one));
        record.announce(current.url);
        const description = stopped ? undefined : await bringUp(current);
        if (description) return description;
      } finally {
        await releaseAll(held);
      }
    }
    return undefined;
  }

  /** @returns the running stack, or undefined if it was stopped or lost a port */
  async function bringUp({ steps, describe }: Plan): Promise<StackDescription | undefined> {
    const portOf = new Map(steps.map((step) => [step.name, step.kind === "service" ? step.ports[0].port : 0]));
    const describeRun = (processes: readonly OwnedProcess[]) =>
      describe(processes.map(({ name, pid }) => ({ name, pid, port: portOf.get(name) ?? 0 })));
    let lost = false;
    const current = createRun({
      steps,
      log,
      record,
      onGiveUp: (error) => {
        if (!(error instanceof PortTaken)) onGiveUp(error);
        else if (ready) void startAgain(error);
        else lose(error);
      },
      onChange: (processes) => {
        if (ready) writeDescription(dataDir, describeRun(processes));
      },
    });
    run = current;

    function lose(error: PortTaken): void {
      if (!lost && !stopped) log.print("stack", `${error.message}; starting again with another`);
      lost = true;
      void current.stop();
    }

    try {
      await current.start();
    } catch (error) {
      if (error instanceof PortTaken) lose(error);
      else if (!lost) throw error;
    }
    if (lost) {
      await current.stop();
      await current.settle();
    }
    if (lost || stopped) return undefined;
    ready = true;
    const description = describeRun(current.processes());
    writeDescription(dataDir, description);
    return description;
  }

  /** Restarts the stack after a service crashed and lost its port before it could restart. */
  async function startAgain(error: PortTaken): Promise<void> {
    ready = false;
    log.print("stack", `${error.message}; starting again with another`);
    try {
      removeDescription(dataDir);
      await run?.stop();
      const description = await start();
      if (description)
        log.print("stack", `ready again on ${description.base}; ${dataDir}/stack.json has all addresses`);
    } catch (failure) {
      onGiveUp(errorOf(failure));
    }
  }

  return {
    start,
    async stop() {
      stopped = true;
      ready = false;
      removeDescription(dataDir);
      onStop();
      await run?.stop();
      record.remove();
    },
    kill: () => run?.kill(),
  };
}
