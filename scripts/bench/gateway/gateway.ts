import { setInterval } from "node:timers";
import type pg from "pg";
import { withDatabase } from "../../local-stack/database.ts";
import { readStackFile, type Stack } from "../../test/stack.ts";
import { superuserUrl } from "../../test/superuser.ts";
import type { Plan } from "../options.ts";
import { readTree } from "../process-tree.ts";
import { OutOfTime, type Progress } from "../progress.ts";
import { startUpstream } from "../upstream/upstream.ts";
import { makeLogFiles } from "./database-state.ts";
import type { GatewayMeasurements } from "./measurements.ts";
import { portkeyVersion, startPortkey } from "./portkey.ts";
import { auditBooks, emptyMeasurements, type RoundContext, runRound, warmUpTargets } from "./rounds.ts";
import type { ServiceProcess } from "./service-process.ts";
import { bareTarget, ourTarget, portkeyTarget, type Target } from "./targets.ts";
import { createTenants } from "./tenants.ts";

const memoryEveryMs = 500;

type GatewayOptions = {
  stack: Stack;
  stackFile: string;
  client: pg.Client;
  plan: Plan;
  peers: boolean;
  progress: Progress;
  signal: AbortSignal;
  complain: (text: string) => void;
};

/**
 * Measures the gateway in rounds, on a stack whose provider is left out: the upstream takes its place.
 * @param options.complain is told what is left out, and why
 * @throws Error where commits are not durable, or the functions end under the load
 */
export async function measureGateway(options: GatewayOptions): Promise<GatewayMeasurements> {
  const { stackFile, client, progress } = options;
  await requireDurability(client);
  progress.begin("a database as one in use");
  return withDatabase(await superuserUrl(stackFile), async (superuser) => {
    await makeLogFiles(superuser);
    return measureInRounds(options, superuser);
  });
}

async function measureInRounds(options: GatewayOptions, superuser: pg.Client): Promise<GatewayMeasurements> {
  const { stack, stackFile, client, plan, progress, signal, complain } = options;
  progress.begin(`${plan.workspaces} workspaces with policies, limits and keys`);
  const tenants = await createTenants(client, { stack, count: plan.workspaces });
  const upstream = await startUpstream(Number(new URL(stack.provider).port));
  let portkey: ServiceProcess | undefined;
  try {
    if (options.peers) {
      progress.begin(`Portkey ${portkeyVersion}`);
      portkey = await startPortkey(signal).catch((error: Error) => {
        complain(`Portkey ${portkeyVersion} is left out, since it cannot be had: ${error.message.slice(0, 500)}`);
        return undefined;
      });
    }
    const ours = ourTarget(stack, tenants);
    const targets: Target[] = [
      ours,
      bareTarget(upstream),
      ...(portkey ? [portkeyTarget({ ...portkey, upstream: upstream.url })] : []),
    ];
    const measured = emptyMeasurements();
    const stopWatching = watchMemory(ours.pid, measured);
    const postgresPid = stack.services.find(({ name }) => name === "postgres")?.pid ?? 0;
    const { begin } = progress;
    const { ownerId } = tenants;
    const context = { plan, targets, upstream, client, superuser, ownerId, postgresPid, signal, begin, complain };
    try {
      await warmUpTargets(context);
      await measureRounds(context, measured);
      requireSameProcess(stackFile, ours.pid);
      begin("the books", { always: true });
      await auditBooks(context, measured);
    } finally {
      stopWatching();
    }
    return measured;
  } finally {
    await Promise.all([upstream.stop(), portkey?.stop()]);
  }
}

/** Rounds until the time is over, whose end is told of. */
async function measureRounds(context: RoundContext, measured: GatewayMeasurements): Promise<void> {
  try {
    for (let round = 1; round <= context.plan.rounds; round += 1) await runRound(context, measured, round);
  } catch (error) {
    if (!(error instanceof OutOfTime)) throw error;
    context.complain(error.message);
  }
}

/** What is counted is only worth it if it is on the disk when the answer goes out. */
async function requireDurability(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('synchronous_commit', 'fsync', 'full_page_writes')
     union all
     select 'set for a role or database: ' || setting, 'off'
     from pg_db_role_setting, unnest(setconfig) setting where setting ~ '^(synchronous_commit|fsync)=' and setting !~ '=on$'`,
  );
  const off = rows.filter(({ setting }) => setting !== "on").map(({ name }) => name);
  if (off.length > 0) throw new Error(`Commits are not durable on this stack: ${off.join(", ")} is off.`);
}

function watchMemory(pid: number, { rss }: GatewayMeasurements): () => void {
  const startedAt = performance.now();
  const note = () => {
    const use = readTree(pid);
    if (use) rss.push({ atSeconds: (performance.now() - startedAt) / 1_000, bytes: use.rssBytes });
  };
  note();
  const timer = setInterval(note, memoryEveryMs);
  return () => clearInterval(timer);
}

function requireSameProcess(stackFile: string, pid: number): void {
  const now = readStackFile(stackFile).services.find(({ name }) => name === "functions")?.pid;
  if (now !== pid) throw new Error("The functions ended under the load and were started anew: see the stack's log.");
}
