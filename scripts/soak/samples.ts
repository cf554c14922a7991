import { readdirSync, readFileSync } from "node:fs";
import pg from "pg";
import { partOf } from "./faults/spans.ts";
import type { SoakStack } from "./stack.ts";

/** The memory and open files of a service's process at one moment. */
export type Sample = { at: number; service: string; pid: number; rssMb: number; files: number };
/** The process of a service at one moment. */
export type ProcessId = Pick<Sample, "at" | "service" | "pid">;
/** Postgres connections at one moment, by login role. */
export type ConnectionSample = { at: number; role: string; connections: number; idleInTransaction: number };

const sampleIntervalMs = 2_000;
const pageBytes = 4_096;
/** Services whose memory and files are watched. */
export const sampled = ["web", "functions", "identity", "gateway", "notes"];

export interface Sampler {
  samples: Sample[];
  /** The processes of every service of the stack. */
  pids: ProcessId[];
  connections: ConnectionSample[];
  /** Takes one more sample of the connections. */
  takeConnections(): Promise<void>;
  stop(): void;
}

/** Samples the stack's processes and connections every two seconds. */
export function startSampler(stack: SoakStack): Sampler {
  const samples: Sample[] = [];
  const pids: ProcessId[] = [];
  const connections: ConnectionSample[] = [];

  function takeProcesses(): void {
    const at = Date.now();
    for (const { name, pid } of stack.read().services) {
      if (pid) pids.push({ at, service: name, pid });
      if (!sampled.includes(partOf(name))) continue;
      try {
        const resident = Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
        const files = readdirSync(`/proc/${pid}/fd`).length;
        samples.push({ at, service: name, pid, rssMb: (resident * pageBytes) / 2 ** 20, files });
      } catch {
        // The service is restarting.
      }
    }
  }

  async function takeConnections(): Promise<void> {
    const client = new pg.Client({ connectionString: stack.read().supabase.dbUrl, connectionTimeoutMillis: 1_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ role: string; connections: number; waiting: number }>(
        `select usename as role, count(*)::int as connections,
           (count(*) filter (where state like 'idle in transaction%' and now() - state_change > interval '2 seconds'))::int as waiting
         from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() group by usename`,
      );
      const at = Date.now();
      for (const { role, connections: count, waiting } of rows) {
        connections.push({ at, role, connections: count, idleInTransaction: waiting });
      }
    } catch {
      // Postgres is restarting or stalled.
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  let underWay = false;
  const timer = setInterval(() => {
    if (underWay) return;
    underWay = true;
    try {
      takeProcesses();
    } catch {
      // The stack is stopping and has removed its stack file.
    }
    void takeConnections().finally(() => {
      underWay = false;
    });
  }, sampleIntervalMs);
  return { samples, pids, connections, takeConnections, stop: () => clearInterval(timer) };
}
