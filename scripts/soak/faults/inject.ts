import { setTimeout as sleep } from "node:timers/promises";
import type { PrimaryLoss } from "@gatehousehq/local-stack/services/patroni/cluster";
import pg from "pg";
import type { SoakStack } from "../stack.ts";
import type { FaultKind, PlannedFault } from "./plan.ts";
import { stallPostgres } from "./pulses.ts";
import { partOf, type Span } from "./spans.ts";

const healthPollMs = 100;
const healthTimeoutMs = 2_000;
/** The run fails if a service takes longer than this to recover. */
const comebackLimitMs = 45_000;
const slowNetwork = { fromMs: 15, toMs: 80 };

type Deps = { stack: SoakStack; spans: Span[]; ended: AbortSignal; say: (line: string) => void };

/** Injects each planned fault at its time, and records how long the affected part of the stack was down or slow. */
export async function injectFaults(
  planned: readonly PlannedFault[],
  { startedAt, ...deps }: Deps & { startedAt: number },
): Promise<void> {
  for (const fault of planned) {
    const waitMs = startedAt + fault.atMs - Date.now();
    await sleep(Math.max(0, waitMs), undefined, { signal: deps.ended }).catch(() => undefined);
    if (deps.ended.aborted) return;
    await inject(fault, deps);
  }
}

async function inject({ kind, forMs }: PlannedFault, deps: Deps): Promise<void> {
  // The primary may fail only once the standby has every commit.
  const { cluster } = deps.stack;
  await cluster?.awaitStandby();
  const span: Span = {
    kind,
    part: partOfFault(kind),
    from: Date.now(),
    until: null,
    killed: /SIGKILL|crash/.test(kind),
  };
  deps.spans.push(span);
  await apply(kind, { ...deps, forMs });
  span.until = Date.now();
  deps.say(`fault ${kind}, ${((span.until - span.from) / 1_000).toFixed(1)} s`);
  await cluster?.awaitStandby();
}

function partOfFault(kind: FaultKind): Span["part"] {
  if (kind === "slow disk" || kind === "network delay") return "postgres";
  return partOf(kind.split(" ")[0] ?? "");
}

async function apply(kind: FaultKind, { stack, ended, forMs }: Deps & { forMs: number }): Promise<void> {
  switch (kind) {
    case "slow disk":
      return stallPostgres(pidOf(stack, "postgres"), { forMs, ended });
    case "network delay":
      stack.proxy.delay(slowNetwork);
      await sleep(forMs, undefined, { signal: ended }).catch(() => undefined);
      stack.proxy.delay(null);
      return;
    case "postgres switchover":
    case "postgres crash":
    case "postgres node crash":
      if (!stack.cluster) throw new Error("The stack has no standby.");
      return stack.cluster.losePrimary(kind.slice("postgres ".length) as PrimaryLoss);
    case "provider 500":
      return providerOutage(stack, { how: { failure: 500 }, forMs, ended });
    case "provider hang":
      return providerOutage(stack, { how: { failure: "hang" }, forMs, ended });
    case "provider reset":
      return providerOutage(stack, { how: { failure: "reset" }, forMs, ended });
    case "provider cut":
      return providerOutage(stack, { how: { midway: "cut" }, forMs, ended });
    default: {
      const [name = "", signal] = kind.split(" ");
      return restart(stack, { name, signal: signal as NodeJS.Signals });
    }
  }
}

async function providerOutage(
  stack: SoakStack,
  { how, forMs, ended }: { how: object; forMs: number; ended: AbortSignal },
): Promise<void> {
  const url = `${stack.read().provider}/outage`;
  await fetch(url, { method: "PUT", body: JSON.stringify(how) });
  await sleep(forMs, undefined, { signal: ended }).catch(() => undefined);
  await fetch(url, { method: "DELETE" });
}

function pidOf(stack: SoakStack, name: string): number {
  const pid = stack.read().services.find((service) => service.name === name)?.pid;
  if (!pid) throw new Error(`${name} does not run`);
  return pid;
}

/** Ends a service's process; the stack's runner restarts it. Resolves once a new process is healthy. */
async function restart(stack: SoakStack, { name, signal }: { name: string; signal: NodeJS.Signals }): Promise<void> {
  const pid = pidOf(stack, name);
  process.kill(pid, signal);
  const deadline = Date.now() + comebackLimitMs;
  while (Date.now() < deadline) {
    if (!stack.isUp()) throw new Error(`The stack ended while ${name} was to come back.`);
    const now = stack.read().services.find((service) => service.name === name);
    if (now && now.pid !== pid && (await isHealthy(stack, now))) return;
    await sleep(healthPollMs);
  }
  throw new Error(`${name} did not come back within ${comebackLimitMs / 1_000} s of ${signal}.`);
}

const healthPaths: Record<string, string> = {
  identity: "/health",
  gateway: "/health",
};

async function isHealthy(stack: SoakStack, { name, port }: { name: string; port: number }): Promise<boolean> {
  try {
    if (name === "postgres" || name === "pgbouncer") {
      const url = new URL(stack.read().supabase.dbUrl);
      url.port = String(port);
      const client = new pg.Client({
        connectionString: url.href,
        connectionTimeoutMillis: healthTimeoutMs,
        query_timeout: healthTimeoutMs,
      });
      client.on("error", () => undefined);
      try {
        await client.connect();
        await client.query("select 1");
      } finally {
        await client.end();
      }
      return true;
    }
    const url = `http://127.0.0.1:${port}${healthPaths[name] ?? "/healthz"}`;
    return (await fetch(url, { signal: AbortSignal.timeout(healthTimeoutMs) })).ok;
  } catch {
    return false;
  }
}
