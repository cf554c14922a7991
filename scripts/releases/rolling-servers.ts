import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { readFile, readlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort, host } from "@gatehousehq/local-stack/ports";
import { functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { forward } from "@gatehousehq/local-stack/services/gateway/forward";
import { type SoakStack, startSoakStack } from "../soak/stack.ts";
import { ensureBuild } from "../start/build.ts";
import type { Stack } from "../test/stack.ts";

/** The servers that an operator replaces: the web server, the functions and the satellite. */
const names = ["functions", "web", "notes"] as const;
type Name = (typeof names)[number];
/** In the order of docs/upgrading.md. */
const forwardOrder: readonly Name[] = names;
const backOrder: readonly Name[] = ["web", "functions", "notes"];

const healthLimitMs = 30_000;
const drainLimitMs = 60_000;
const exitLimitMs = 30_000;
const startAttempts = 3;
/** With these, the usual ports are outside those that other stacks and outgoing connections get. */
const portOffsets = { from: 6_700, to: 6_990 };

type Launch = { command: string; args: string[]; cwd: string; env: NodeJS.ProcessEnv };
type Running = { process: ChildProcess; port: number };

/** A stack of the previous release whose servers can be replaced while calls continue. */
export interface RollingStack {
  /** The file that GATEHOUSE_STACK names. Its addresses are those of the balancers. */
  file: string;
  description: Stack;
  /** Replaces the servers with this checkout's, one kind after the other. Resolves once the old ones have ended. */
  upgrade(): Promise<void>;
  /** Replaces the servers with those of the previous release. The settings of the upgrade stay. */
  rollBack(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a release's whole stack, then takes its servers out and runs them behind balancers, so that `upgrade` and
 * `rollBack` can replace them as a rolling deployment does: new requests go to the new server, and the old one ends once
 * it has answered its own.
 */
export async function startRollingStack({
  root,
  settings,
}: {
  /** The checkout of the release. */
  root: string;
  /** What the upgrade adds to the servers' environment. */
  settings: Readonly<Record<string, string>>;
}): Promise<RollingStack> {
  const { stack, description, launches } = await takeOverServers(root);
  const running = new Map<Name, Running>();
  const fronts = new Map<Name, Front>();
  const portOf = (name: Name) => description.services.find((service) => service.name === name)?.port ?? 0;
  const start = async (name: Name, launch: Launch) => {
    const server = await startServer(launch, path.join(stack.dataDir, `${name}.log`));
    const before = running.get(name);
    running.set(name, server);
    const front = fronts.get(name) ?? (await openFront(portOf(name)));
    fronts.set(name, front);
    await front.switchTo(server.port);
    if (before) await endServer(before);
  };
  const stop = async () => {
    for (const { process } of running.values()) process.kill("SIGTERM");
    await Promise.all([...running.values()].map(({ process }) => endProcess(process)));
    for (const front of fronts.values()) front.close();
    await stack.stop();
    await stack.remove();
  };
  const withSettings = ({ env, ...launch }: Launch): Launch => ({ ...launch, env: { ...env, ...settings } });
  try {
    for (const name of names) await start(name, launches[name]);
  } catch (error) {
    await stop();
    throw error;
  }
  const file = path.join(stack.dataDir, "rolling.json");
  await writeFile(file, JSON.stringify(description));
  return {
    file,
    description,
    async upgrade() {
      await ensureBuild({ root: path.resolve("."), logFile: path.join(stack.dataDir, "build.log"), adopt: () => {} });
      for (const name of forwardOrder) await start(name, withSettings(launchOfThisCheckout(name, launches[name])));
    },
    async rollBack() {
      for (const name of backOrder) await start(name, withSettings(launches[name]));
    },
    stop,
  };
}

/** Starts a stack, notes how it runs its servers, and starts it again without them, on the same ports. */
async function takeOverServers(
  root: string,
): Promise<{ stack: SoakStack; description: Stack; launches: Record<Name, Launch> }> {
  for (let attempt = 1; ; attempt += 1) {
    const portOffset = randomInt(portOffsets.from, portOffsets.to);
    const whole = await startSoakStack({ root, portOffset });
    const description = whole.read();
    const entries = description.services
      .filter((service): service is typeof service & { name: Name } => names.includes(service.name as Name))
      .map(async ({ name, pid }) => [name, await readLaunch(pid)] as const);
    const launches = Object.fromEntries(await Promise.all(entries)) as Record<Name, Launch>;
    await whole.stop();
    const stack = await startSoakStack({ root, portOffset, dataDir: whole.dataDir, without: names });
    const again = stack.read();
    if (again.supabase.dbUrl === description.supabase.dbUrl && again.ai === description.ai) {
      // The functions connected through a proxy, which ended with the first stack.
      const { port } = new URL(description.supabase.dbUrl);
      for (const { env } of Object.values(launches)) {
        for (const [name, value] of Object.entries(env))
          env[name] = value?.replaceAll(`:${whole.proxy.port}/`, `:${port}/`);
      }
      return { stack, description, launches };
    }
    await stack.stop();
    await stack.remove();
    if (attempt === startAttempts) throw new Error("Another process takes the stack's ports.");
  }
}

/** Reads how a running process was started. */
async function readLaunch(pid: number): Promise<Launch> {
  const read = async (file: string) => (await readFile(`/proc/${pid}/${file}`, "utf8")).split("\0").filter(Boolean);
  const [[command = "", ...args], environment] = [await read("cmdline"), await read("environ")];
  const pairs = environment.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]);
  return {
    command,
    args,
    cwd: await readlink(`/proc/${pid}/cwd`),
    env: Object.fromEntries(pairs) as NodeJS.ProcessEnv,
  };
}

/** Returns how this checkout's server starts with the environment of the previous release's. */
function launchOfThisCheckout(name: Name, { env }: Launch): Launch {
  const cwd = path.resolve(".");
  if (name === "functions") {
    return { ...functionsCommand(cwd), cwd, env };
  }
  const file = name === "web" ? "remix-app/server.ts" : "satellites/notes/server.ts";
  return { command: process.execPath, args: [path.join(cwd, file)], cwd, env };
}

async function startServer({ command, args, cwd, env }: Launch, logFile: string): Promise<Running> {
  const port = await freePort();
  const child = spawn(command, args, { cwd, env: { ...env, PORT: String(port) }, stdio: ["ignore", "pipe", "pipe"] });
  const log = createWriteStream(logFile, { flags: "a" });
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  const deadline = Date.now() + healthLimitMs;
  while (!(await isHealthy(port))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`${args.at(-1)} did not start: see ${logFile}`);
    }
    await sleep(50);
  }
  return { process: child, port };
}

function isHealthy(port: number): Promise<boolean> {
  return fetch(`http://${host}:${port}/healthz`).then(
    (response) => response.ok,
    () => false,
  );
}

async function endServer({ process }: Running): Promise<void> {
  process.kill("SIGTERM");
  await endProcess(process);
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const forced = setTimeout(() => child.kill("SIGKILL"), exitLimitMs);
  await once(child, "exit");
  clearTimeout(forced);
}

/** A balancer on a port that clients know. */
interface Front {
  /** Sends new requests to another server. Resolves once the requests to the server before have ended. */
  switchTo(port: number): Promise<void>;
  close(): void;
}

async function openFront(port: number): Promise<Front> {
  let target = 0;
  const open = new Map<number, number>();
  const count = (server: number, change: number) => open.set(server, (open.get(server) ?? 0) + change);
  const server: Server = createServer((incoming, outgoing) => {
    const chosen = target;
    count(chosen, 1);
    outgoing.once("close", () => count(chosen, -1));
    forward(incoming, outgoing, {
      origin: `http://${host}:${chosen}`,
      path: incoming.url ?? "/",
      headers: incoming.headers,
      unreachable: { status: 503, body: { code: "no_server", message: "The server cannot be reached." } },
    });
  });
  server.listen(port, host);
  await once(server, "listening");
  return {
    async switchTo(next) {
      const before = target;
      target = next;
      const deadline = Date.now() + drainLimitMs;
      while ((open.get(before) ?? 0) > 0 && Date.now() < deadline) await sleep(20);
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
