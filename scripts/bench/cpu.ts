import { readdirSync, readFileSync } from "node:fs";

/** Linux counts CPU time in hundredths of a second (USER_HZ in time(7)). */
const msPerTick = 10;

export type CpuTimes = {
  /** CPU time of libuv's thread pool, which runs bcrypt and signs tokens. */
  poolMs: number;
  /** CPU time of the process's other threads, which run its JavaScript and V8's compilers and garbage collectors. */
  restMs: number;
  /** All processes of Postgres, including its connections. */
  postgresMs: number;
};

/** Returns the CPU time an identity server and its database have used so far, by thread; undefined outside Linux. */
export function readCpuTimes(pids: { identity: number; postgres: number }): CpuTimes | undefined {
  if (process.platform !== "linux") return undefined;
  const threads = readdirSync(`/proc/${pids.identity}/task`).map((id) => readStat(`${pids.identity}/task/${id}`));
  const pool = threads.filter(({ name }) => name === "libuv-worker");
  const backends = readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(readStat)
    .filter(({ pid, parent }) => pid === pids.postgres || parent === pids.postgres);
  const sum = (stats: Stat[]) => stats.reduce((total, { cpuMs }) => total + cpuMs, 0);
  return { poolMs: sum(pool), restMs: sum(threads) - sum(pool), postgresMs: sum(backends) };
}

type Stat = {
  pid: number;
  name: string;
  parent: number;
  cpuMs: number;
  /** CPU time of ended children and their descendants. For a thread, the kernel reports its process's value. */
  endedChildrenMs: number;
};

/** Reads proc_pid_stat(5). Returns zeros for a process that has just ended. */
export function readStat(entry: string): Stat {
  let text: string;
  try {
    text = readFileSync(`/proc/${entry}/stat`, "utf8");
  } catch {
    return { pid: 0, name: "", parent: 0, cpuMs: 0, endedChildrenMs: 0 };
  }
  const name = text.slice(text.indexOf("(") + 1, text.lastIndexOf(")"));
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    pid: Number.parseInt(text, 10),
    name,
    parent: Number(fields[1]),
    cpuMs: (Number(fields[11]) + Number(fields[12])) * msPerTick,
    endedChildrenMs: (Number(fields[13]) + Number(fields[14])) * msPerTick,
  };
}
