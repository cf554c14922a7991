import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { withDatabase } from "../../database.ts";
import { messageOf, StackError } from "../../errors.ts";
import { type HeldPort, holdFreePort, host } from "../../ports.ts";
import { childrenOf, startOf } from "../../runner/processes.ts";
import { startWatch } from "../../runner/watch.ts";
import { superuser } from "../postgres/cluster.ts";
import { placeCluster } from "../postgres/placement.ts";
import { haproxySettings, type PatroniNode, patroniSettings } from "./configuration.ts";
import type { PatroniPrograms } from "./programs.ts";

/**
 * How the primary is lost. `switchover`: the operator requests it. `crash`: its Postgres dies. `node crash`: its Patroni
 * dies too, so that only its silence shows it.
 */
export type PrimaryLoss = "switchover" | "crash" | "node crash";

/** Two Postgres of which one is the primary, and the proxy that leads to it. */
export type PatroniCluster = {
  /** The folder of settings and data. */
  home: string;
  /** The port that leads to the primary. */
  port: number;
  /** Waits until the standby has every commit that is answered, so that the primary may fail. */
  awaitStandby: () => Promise<void>;
  /** Takes the primary away. Resolves once the other node has committed a transaction that came through the proxy. */
  losePrimary: (how: PrimaryLoss) => Promise<void>;
  stop: () => Promise<void>;
  remove: () => Promise<void>;
};

const startLimitMs = 60_000;
const switchLimitMs = 60_000;
const stopLimitMs = 15_000;
const pollMs = 100;
const answerLimitMs = 2_000;

const memberList = z.object({
  members: z.array(z.object({ name: z.string(), role: z.string(), state: z.string() })),
});

/**
 * Starts etcd, two nodes of Patroni and HAProxy on loopback, in a new temporary folder. The processes end with this one.
 * @param options.password of the superuser
 * @param options.logDir the folder of the processes' logs
 * @throws StackError if the cluster does not get a standby in time
 */
export async function startPatroniCluster(options: {
  programs: PatroniPrograms;
  password: string;
  logDir: string;
}): Promise<PatroniCluster> {
  const { programs, password, logDir } = options;
  const home = mkdtempSync(path.join(tmpdir(), "gatehouse-patroni-"));
  chmodSync(home, 0o755);
  mkdirSync(logDir, { recursive: true });
  const watch = startWatch();
  const processes = new Map<string, ChildProcess>();
  const held: HeldPort[] = [];
  const superuserLogin = { username: superuser, password };

  async function hold(): Promise<number> {
    const one = await holdFreePort();
    held.push(one);
    return one.port;
  }

  async function placeNode(name: string): Promise<PatroniNode & { user: { uid: number; gid: number } | undefined }> {
    const { dataDir, user } = await placeCluster(path.join(home, name), programs.postgresFolder);
    return { name, dataDir, user, postgresPort: await hold(), restPort: await hold() };
  }

  const [etcdPort, etcdPeerPort, port] = [await hold(), await hold(), await hold()];
  const nodes = [await placeNode("one"), await placeNode("two")] as const;
  const user = nodes[0].user;
  if (user) chownSync(home, user.uid, user.gid);

  function write(name: string, text: string): string {
    const file = path.join(home, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (user) chownSync(file, user.uid, user.gid);
    return file;
  }

  function launch(name: string, command: string, args: string[]): void {
    const log = openSync(path.join(logDir, `${name}.log`), "a");
    const child = spawn(command, args, {
      ...user,
      cwd: home,
      detached: true,
      stdio: ["ignore", log, log],
      env: { PATH: process.env.PATH, HOME: home, LC_ALL: "C.UTF-8", TZ: "UTC" } as Record<
        string,
        string
      > as NodeJS.ProcessEnv,
    });
    closeSync(log);
    child.on("error", () => undefined);
    const { pid } = child;
    if (pid === undefined) throw new StackError(`${command} cannot be run.`);
    watch.add({ pid, startedAt: startOf(pid) ?? "", name, stopSignal: "SIGTERM" });
    child.once("exit", () => watch.remove(pid));
    processes.set(name, child);
  }

  function launchNode(node: PatroniNode): void {
    const settings = patroniSettings(node, {
      home,
      etcdPort,
      postgresFolder: programs.postgresFolder,
      superuser: superuserLogin,
      replication: { username: "replicator", password },
    });
    launch(`patroni-${node.name}`, programs.patroni, [write(`${node.name}.yml`, settings)]);
  }

  /** Returns the members as the first node that answers sees them. */
  async function readMembers(): Promise<z.infer<typeof memberList>["members"]> {
    for (const { restPort } of nodes) {
      try {
        const signal = AbortSignal.timeout(answerLimitMs);
        return memberList.parse(await (await fetch(`http://${host}:${restPort}/cluster`, { signal })).json()).members;
      } catch {
        // This node is down.
      }
    }
    return [];
  }

  async function until(what: string, limitMs: number, isTrue: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + limitMs;
    while (!(await isTrue())) {
      if (performance.now() > deadline) {
        throw new StackError(`After ${limitMs / 1_000} s, ${what}. Logs: ${logDir}`);
      }
      await sleep(pollMs);
    }
  }

  const awaitStandby = () =>
    until("no standby has every commit", startLimitMs, async () =>
      (await readMembers()).some(({ role, state }) => role === "sync_standby" && /^(running|streaming)$/.test(state)),
    );

  /** Commits a transaction through the proxy. @returns the port of the Postgres that did; undefined if none could */
  async function commit(): Promise<number | undefined> {
    try {
      return await withDatabase(
        {
          ...{ host, port, user: superuser, password, database: "postgres" },
          ...{ connectionTimeoutMillis: answerLimitMs, query_timeout: answerLimitMs },
        },
        async (client) => {
          const { rows } = await client.query<{ port: number }>(
            "select inet_server_port() as port, pg_logical_emit_message(true, 'probe', '')",
          );
          return rows[0]?.port;
        },
      );
    } catch {
      return undefined;
    }
  }

  function postmasterOf({ dataDir }: PatroniNode): number | undefined {
    try {
      return Number(readFileSync(path.join(dataDir, "postmaster.pid"), "utf8").split("\n")[0]);
    } catch {
      return undefined;
    }
  }

  /** Ends a Postgres that has no Patroni, if the lock file's pid is still its own. */
  function killOrphan(node: PatroniNode): void {
    const pid = postmasterOf(node);
    try {
      if (pid && readlinkSync(`/proc/${pid}/cwd`) === node.dataDir) killAll([pid]);
    } catch {
      // It has ended.
    }
  }

  function killAll(pids: readonly (number | undefined)[]): void {
    for (const pid of pids) {
      try {
        if (pid) process.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }

  async function losePrimary(how: PrimaryLoss): Promise<void> {
    const leader = (await readMembers()).find(({ role }) => role === "leader")?.name;
    const primary = nodes.find(({ name }) => name === leader);
    const standby = nodes.find(({ name }) => name !== leader);
    if (!primary || !standby) throw new StackError("The cluster has no primary.");
    if (how === "switchover") {
      const response = await fetch(`http://${host}:${primary.restPort}/switchover`, {
        method: "POST",
        body: JSON.stringify({ leader: primary.name, candidate: standby.name }),
      });
      if (!response.ok) throw new StackError(`The switchover was refused: ${await response.text()}`);
    } else {
      const postmaster = postmasterOf(primary);
      if (!postmaster) throw new StackError(`${primary.name} has no Postgres.`);
      const patroni = processes.get(`patroni-${primary.name}`)?.pid;
      killAll(how === "crash" ? [postmaster] : [patroni, ...childrenOf(postmaster), postmaster]);
    }
    await until("no other primary commits", switchLimitMs, async () => (await commit()) === standby.postgresPort);
    if (how === "node crash") launchNode(primary);
  }

  async function end(name: string): Promise<void> {
    const child = processes.get(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGTERM");
    const forced = setTimeout(() => child.kill("SIGKILL"), stopLimitMs);
    await exited;
    clearTimeout(forced);
  }

  async function stop(): Promise<void> {
    await end("haproxy");
    // A standby ends first, since a primary waits for it.
    const leader = (await readMembers()).find(({ role }) => role === "leader")?.name;
    for (const node of nodes.toSorted(({ name }) => (name === leader ? 1 : -1))) {
      await end(`patroni-${node.name}`);
      killOrphan(node);
    }
    await end("etcd");
    watch.close();
  }

  try {
    await Promise.all(held.map((one) => one.release()));
    const [client, peer] = [`http://${host}:${etcdPort}`, `http://${host}:${etcdPeerPort}`];
    launch("etcd", programs.etcd, [
      ...["--name", "one", "--data-dir", path.join(home, "etcd"), "--log-level", "warn"],
      ...["--listen-client-urls", client, "--advertise-client-urls", client],
      ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `one=${peer}`],
    ]);
    for (const node of nodes) launchNode(node);
    launch("haproxy", programs.haproxy, ["-db", "-f", write("haproxy.cfg", haproxySettings(nodes, port))]);
    await awaitStandby();
    await until("HAProxy leads to no primary", startLimitMs, async () => (await commit()) !== undefined);
  } catch (error) {
    await stop();
    throw new StackError(`The two Postgres did not start: ${messageOf(error)}`);
  }
  return {
    home,
    port,
    awaitStandby,
    losePrimary,
    stop,
    remove: () => rm(home, { recursive: true, force: true }),
  };
}
