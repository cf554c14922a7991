import path from "node:path";
import { wishedWebPort } from "./addresses.ts";
import { prepareDataDir } from "./data-dir.ts";
import { removeDescription, type StackDescription, writeDescription } from "./description.ts";
import type { Environment } from "./environment.ts";
import type { Options } from "./options.ts";
import { choosePorts, describeTaken, type Ports } from "./ports.ts";
import { createLog, type Log } from "./runner/log.ts";
import type { OwnedProcess } from "./runner/processes.ts";
import { createRun } from "./runner/run.ts";
import { type RunRecord, takeDataDir } from "./runner/run-record.ts";
import type { Step } from "./runner/service.ts";

export type StartOptions = {
  /** The checkout. */
  root: string;
  options: Options;
  environment: Environment;
  /** Where people read what goes on. */
  terminal: NodeJS.WriteStream;
  /** Hears of a service that would not stay up. */
  onGiveUp: (error: Error) => void;
};

/** A stack that has its data directory and its plan. Nothing runs before `start`. */
export type Stack = {
  start: () => Promise<StackDescription>;
  stop: () => Promise<void>;
  kill: () => void;
};

export type Opened = { dataDir: string; log: Log; record: RunRecord };

/** Takes the data directory for this run. @throws StackError when another run has it, or we cannot write there */
export async function openDataDir({ options, terminal }: StartOptions): Promise<Opened> {
  const dataDir = path.resolve(options.dataDir);
  prepareDataDir(dataDir);
  const log = createLog({ directory: path.join(dataDir, "logs"), terminal, verbose: options.verbose });
  const record = await takeDataDir({
    dataDir,
    onLeftover: (names) => log.say("stack", `ended what the run before had left behind: ${names.join(", ")}`),
  });
  removeDescription(dataDir);
  return { dataDir, log, record };
}

/** Finds the ports, and says which of the known ones are taken. */
export async function findPorts({ options, environment }: StartOptions, log: Log): Promise<Ports> {
  const web = options.ports.web === 0 ? 0 : (wishedWebPort(environment.settings) ?? options.ports.web);
  const { ports, taken } = await choosePorts({ ...options.ports, web });
  for (const one of taken) {
    if (!options.without.has(one.name)) log.say("stack", describeTaken(one));
  }
  return ports;
}

/** Makes one stack of the steps. `describe` tells what runs, given the processes; `onStop` frees what is left. */
export function createStack(
  { dataDir, log, record }: Opened,
  plan: {
    steps: readonly Step[];
    url: string;
    describe: (services: StackDescription["services"]) => StackDescription;
    onGiveUp: (error: Error) => void;
    onStop: () => void;
  },
): Stack {
  const portOf = new Map(plan.steps.map((step) => [step.name, step.kind === "service" ? step.port : 0]));
  const describe = (processes: readonly OwnedProcess[]) =>
    plan.describe(processes.map(({ name, pid }) => ({ name, pid, port: portOf.get(name) ?? 0 })));
  let ready = false;
  const run = createRun({
    steps: plan.steps,
    log,
    record,
    onGiveUp: plan.onGiveUp,
    onChange: (processes) => {
      if (ready) writeDescription(dataDir, describe(processes));
    },
  });
  record.announce(plan.url);
  return {
    async start() {
      await run.start();
      ready = true;
      const description = describe(run.processes());
      writeDescription(dataDir, description);
      return description;
    },
    async stop() {
      ready = false;
      removeDescription(dataDir);
      plan.onStop();
      await run.stop();
    },
    kill: run.kill,
  };
}
