import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { denoCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import type pg from "pg";
import { readStackFile, type Stack } from "../../test/stack.ts";
import { superuserUrl } from "../../test/start-stack.ts";
import type { Plan } from "../options.ts";
import { startLitellm } from "../peers/litellm.ts";
import { startPortkey } from "../peers/portkey.ts";
import type { Progress } from "../progress.ts";
import { startUpstream } from "../upstream/upstream.ts";
import { readBooks, untilSettled } from "./books.ts";
import { makeLogFiles } from "./database-state.ts";
import type { GatewayMeasurements } from "./measurements.ts";
import { runRound, warmUpTargets } from "./rounds.ts";
import { type ServiceProcess, startServer } from "./service-process.ts";
import { otherTarget, ourTarget, type Target, type TargetName, targetLabels } from "./targets.ts";
import { createTenants } from "./tenants.ts";

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
 * Measures the gateway in rounds. The stack runs without its model provider. The bench's upstream server replaces it.
 * @param options.complain receives a message for each measurement that is left out, with the reason
 * @throws Error if commits are not durable, or if the functions restart under the load
 */
export async function measureGateway(options: GatewayOptions): Promise<GatewayMeasurements> {
  const { stackFile, client, progress } = options;
  await requireDurability(client);
  return withDatabase(await superuserUrl(stackFile), async (superuser) => {
    progress.begin("write-ahead log files, as a database in use has them");
    await makeLogFiles(superuser);
    return measureInRounds(options, superuser);
  });
}

async function measureInRounds(options: GatewayOptions, superuser: pg.Client): Promise<GatewayMeasurements> {
  const { stack, stackFile, client, plan, progress, signal, complain } = options;
  progress.begin(`${plan.workspaces} workspaces with policies, limits and keys`);
  const { ownerId, keys } = await createTenants(client, { stack, count: plan.workspaces });
  const ours = ourTarget(stack, keys);
  const targets: Target[] = [ours];
  const started: ServiceProcess[] = [];
  try {
    const upstream = await startUpstream(Number(new URL(stack.provider).port));
    started.push(upstream);
    const add = async (name: Exclude<TargetName, "gatehouse">, start: () => Promise<ServiceProcess>) => {
      progress.begin(targetLabels[name]);
      const server = await start();
      started.push(server);
      targets.push(otherTarget(name, { ...server, upstream: upstream.url }));
    };
    const addPeer = (name: "portkey" | "litellm", start: () => Promise<ServiceProcess>) =>
      add(name, start).catch((error: Error) => {
        signal.throwIfAborted();
        complain(`${targetLabels[name]} is left out: ${error.message.slice(0, 500)}`);
      });
    targets.push(otherTarget("bare", { ...upstream, upstream: upstream.url }));
    await add("floor", () => startFloor(client, { upstream: upstream.url, databaseUrl: stack.supabase.dbUrl }));
    if (options.peers) {
      await addPeer("portkey", () => startPortkey(signal));
      await addPeer("litellm", () => startLitellm(upstream.url, { signal }));
    } else complain("Portkey and LiteLLM are left out without --peers.");
    const measured: GatewayMeasurements = { latency: {}, throughput: {}, streams: {} };
    const postgresPid = stack.services.find(({ name }) => name === "postgres")?.pid ?? 0;
    const { begin } = progress;
    const context = { plan, targets, upstream, client, superuser, postgresPid, signal, begin, complain };
    await warmUpTargets(context);
    for (let round = 1; round <= plan.rounds; round += 1) await runRound(context, measured, round);
    const pid = readStackFile(stackFile).services.find(({ name }) => name === "functions")?.pid;
    if (pid !== ours.pid) throw new Error("The functions restarted under the load: see the stack's log.");
    begin("the books");
    await untilSettled(client);
    return { ...measured, books: await readBooks(client, ownerId) };
  } finally {
    await Promise.all(started.map((server) => server.stop()));
  }
}

/** Starts the floor: a forwarder in the functions' Deno runtime that commits one row before it calls the upstream. */
async function startFloor(
  client: pg.Client,
  { upstream, databaseUrl }: { upstream: string; databaseUrl: string },
): Promise<ServiceProcess> {
  await client.query("create schema bench; create table bench.calls (id uuid primary key, at timestamptz not null)");
  const { command, args } = denoCommand(path.resolve("."));
  const program = path.resolve(import.meta.dirname, "../processes/floor.ts");
  return startServer({
    command,
    args: () => [...args, "run", "--quiet", "--no-remote", "--allow-net", "--allow-env", "--allow-sys", program],
    env: () => ({ UPSTREAM: upstream, DATABASE_URL: databaseUrl }),
  });
}

/** Throws unless commits are durable, because a charge counts only if it is on disk when the answer is sent. */
export async function requireDurability(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('synchronous_commit', 'fsync', 'full_page_writes')
     union all
     select 'set for a role or database: ' || setting, 'off'
     from pg_db_role_setting, unnest(setconfig) setting where setting ~ '^(synchronous_commit|fsync)=' and setting !~ '=on$'`,
  );
  const off = rows.filter(({ setting }) => setting !== "on").map(({ name }) => name);
  if (off.length > 0) throw new Error(`Commits are not durable on this stack: ${off.join(", ")} is off.`);
}
