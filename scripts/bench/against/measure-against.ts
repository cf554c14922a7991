import { loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { prepareCommit } from "../../releases/check-out.ts";
import { startStack } from "../../test/start-stack.ts";
import { untilSettled } from "../gateway/books.ts";
import type { Call } from "../gateway/call.ts";
import { clearBacklog } from "../gateway/database-state.ts";
import { runClosedLoop } from "../gateway/load.ts";
import type { ThroughputSample } from "../gateway/measurements.ts";
import { sampleThroughput } from "../gateway/throughput.ts";
import type { Plan } from "../options.ts";
import { readTree } from "../process-tree.ts";
import type { Progress } from "../progress.ts";
import { webCalls } from "../web/pages.ts";
import { callers } from "./callers.ts";
import {
  type Contender,
  openOidcProvider,
  openPortkey,
  openStackGateway,
  openStackWeb,
  openSupabaseAuth,
  openTwoProcesses,
  readStatements,
  resetStatements,
  type Statements,
  trackFunctions,
} from "./contenders.ts";

/** What was measured: a contender, a caller or request, and a number of connections. */
export type Load = { label: string; caller: string; connections: number };

type Part = "gateway" | "web";

/** A sample of one round. `statementMs` is Postgres's time for a call's statements. */
type AgainstSample = Load & { round: number; statementMs: number | undefined } & ThroughputSample;

/** Statements a call: those that the gateway sent, and all with those in functions. */
export type StatementCount = Load & Pick<Statements, "sent" | "all">;

export type AgainstMeasurements = {
  part: Part;
  /** This checkout, the other commit, and the peers that were measured. */
  labels: { ours: string; theirs: string; peers: string[] };
  /** The machine's 1-minute load before each round. */
  machineLoads: number[];
  samples: AgainstSample[];
  counts: StatementCount[];
  /** The memory of each server after the rounds, with its child processes. */
  memory: { label: string; bytes: number | undefined }[];
};

type AgainstOptions = {
  part: Part;
  stackFile: string;
  against: string;
  without: string[];
  plan: Plan;
  peers: boolean;
  progress: Progress;
  signal: AbortSignal;
  complain: (text: string) => void;
};

type Context = Pick<AgainstOptions, "part" | "plan" | "progress" | "signal" | "complain"> & {
  contenders: Contender[];
};

/** The time in which every process of Postgres has reloaded its settings. */
const reloadMs = 500;

/** Returns the loads of each contender that has their calls. */
export function loadsOf(part: Part, { against }: Plan): Omit<Load, "label">[] {
  const each = (caller: string, all: readonly number[]) => all.map((connections) => ({ caller, connections }));
  if (part === "web") return webCalls.flatMap((call) => each(call, against.webConnections));
  const [keys, ...others] = callers;
  return [...each(keys, against.connections), ...others.flatMap((caller) => each(caller, [against.callerConnections]))];
}

/** Returns the number of steps, for two stacks and possibly the peers. */
export function countAgainstSteps(plan: Plan, { part, peers }: { part: Part; peers: boolean }): number {
  const { connections, webConnections, rounds } = plan.against;
  const ofStack = loadsOf(part, plan).length;
  // Two processes have all requests, oidc-provider has four of them and Supabase Auth one.
  const ofPeers =
    part === "gateway" ? 2 + rounds * connections.length : 6 + rounds * (ofStack + 5 * webConnections.length);
  return 6 + (peers ? ofPeers : 0) + rounds * 2 * ofStack + (part === "gateway" ? 2 * ofStack : 0);
}

/**
 * Compares the gateway or web server of a running stack with that of another commit and, with `peers`, with others. Only
 * one of them is under load at a time, and each round measures all of them in turn.
 */
export async function measureAgainst(options: AgainstOptions): Promise<AgainstMeasurements> {
  const { part, stackFile, against, without, plan, peers, progress, signal, complain } = options;
  const closing: (() => Promise<unknown>)[] = [];
  try {
    progress.begin(`the code of ${against}`);
    const { commit, root } = await prepareCommit(against, signal);
    const theirs = commit.slice(0, 8);
    progress.begin(`a stack of ${theirs}`);
    const stack = await startStack({}, { without, signal, durable: true, root });
    closing.push(stack.stop);
    const contenders: Contender[] = [];
    const open = async (label: string, opening: () => Promise<Contender>) => {
      progress.begin(`callers of ${label}`);
      const contender = await opening();
      closing.push(contender.close);
      contenders.push(contender);
    };
    const ours = "this checkout";
    for (const [label, file] of [
      [ours, stackFile],
      [theirs, stack.file],
    ] as const) {
      await open(label, () =>
        part === "web"
          ? openStackWeb({ label, stackFile: file })
          : openStackGateway({ label, stackFile: file, workspaces: plan.workspaces, complain }),
      );
    }
    for (const [label, opening] of peers ? peersOf(options) : []) {
      await open(label, opening).catch((error: Error) => {
        signal.throwIfAborted();
        complain(`${label} is left out: ${error.message.slice(0, 500)}`);
      });
    }
    const labels = { ours, theirs, peers: contenders.slice(2).map(({ label }) => label) };
    const context = { part, plan, progress, signal, complain, contenders };
    await warmUp(context);
    const measured: AgainstMeasurements = { part, labels, machineLoads: [], samples: [], counts: [], memory: [] };
    for (let round = 1; round <= plan.against.rounds; round += 1) await runRound(context, measured, round);
    for (const contender of contenders) measured.counts.push(...(await countStatements(context, contender)));
    for (const { label, pid } of contenders) measured.memory.push({ label, bytes: readTree(pid)?.rssBytes });
    for (const contender of contenders) contender.requireSameProcess();
    return measured;
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

function peersOf({ part, stackFile, signal }: AgainstOptions): [label: string, open: () => Promise<Contender>][] {
  if (part === "gateway") return [["Portkey", () => openPortkey(signal)]];
  return [
    ["two processes", () => openTwoProcesses(stackFile)],
    ["oidc-provider", openOidcProvider],
    ["Supabase Auth", () => openSupabaseAuth(stackFile)],
  ];
}

/** Puts each load on each contender, so that its code is compiled and its rows exist before the first round. */
async function warmUp({ part, contenders, plan, progress, signal }: Context): Promise<void> {
  for (const contender of contenders) {
    progress.begin(`before the rounds, ${contender.label}`);
    const loads = loadsOf(part, plan).filter(({ caller }) => contender.calls[caller]);
    for (const { caller, connections } of loads) {
      const call = await prepareCall(contender, caller);
      const durationMs = plan.firstWarmUpMs / loads.length;
      if (call) await runClosedLoop({ call, connections, warmUpMs: 0, durationMs }, signal);
    }
    if (contender.database) await untilSettled(contender.database.client);
  }
}

/** Runs one round. Every other round goes through the contenders in reverse order. */
async function runRound(context: Context, into: AgainstMeasurements, round: number): Promise<void> {
  const { part, contenders, plan } = context;
  const machineLoad = loadavg()[0] ?? 0;
  into.machineLoads.push(machineLoad);
  const inOrder = round % 2 === 1 ? contenders : contenders.toReversed();
  for (const { caller, connections } of loadsOf(part, plan)) {
    for (const contender of inOrder) {
      const load = { label: contender.label, caller, connections };
      const announced = `round ${round}, load ${machineLoad.toFixed(2)}: ${connections} connections, ${caller}`;
      if (contender.calls[caller])
        into.samples.push({ ...load, round, ...(await sample(context, { contender, load, announced })) });
    }
  }
}

async function prepareCall({ calls }: Contender, caller: string): Promise<Call | undefined> {
  const call = calls[caller];
  return typeof call === "function" ? call() : call;
}

async function sample(
  { plan, progress, signal, complain }: Context,
  { contender, load, announced }: { contender: Contender; load: Load; announced: string },
): Promise<ThroughputSample & { statementMs: number | undefined }> {
  const { label, pid, database } = contender;
  const call = await prepareCall(contender, load.caller);
  if (!call) throw new Error(`${label} has no ${load.caller}.`);
  progress.begin(`${announced}, ${label}`);
  if (database) {
    await clearBacklog(database.superuser);
    await resetStatements(database.superuser);
  }
  const timing = { connections: load.connections, warmUpMs: plan.warmUpMs, durationMs: plan.against.durationMs };
  const { calls: answered, ...taken } = await sampleThroughput({ label, pid, call, database }, timing, {
    signal,
    complain,
  });
  const statements = database && (await readStatements(database.superuser));
  return { ...taken, statementMs: statements && answered > 0 ? statements.sentMs / answered : undefined };
}

/** Counts the statements a call under each load, with those in functions. */
async function countStatements(context: Context, contender: Contender): Promise<StatementCount[]> {
  const { part, plan, progress, signal, complain } = context;
  const { label, pid, database } = contender;
  if (!database) return [];
  const { superuser } = database;
  const counts: StatementCount[] = [];
  await trackFunctions(superuser, true);
  try {
    await sleep(reloadMs);
    for (const { caller, connections } of loadsOf(part, plan)) {
      const call = await prepareCall(contender, caller);
      if (!call) continue;
      progress.begin(`statements a call: ${connections} connections, ${caller}, ${label}`);
      await resetStatements(superuser);
      const timing = { connections, warmUpMs: 0, durationMs: plan.against.countMs };
      const taken = await sampleThroughput({ label, pid, call, database }, timing, { signal, complain });
      const { sent, all } = await readStatements(superuser);
      counts.push({ label, caller, connections, sent: sent / taken.calls, all: all / taken.calls });
    }
  } finally {
    await trackFunctions(superuser, false);
  }
  return counts;
}
