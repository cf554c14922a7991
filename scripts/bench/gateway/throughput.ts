import type pg from "pg";
import { readTree } from "../process-tree.ts";
import { untilSettled } from "./books.ts";
import type { Call } from "./call.ts";
import { runClosedLoop } from "./load.ts";
import type { ThroughputSample } from "./measurements.ts";

/** A server under load, and the database that it uses. */
export type LoadedServer = {
  label: string;
  pid: number;
  call: Call;
  database?: { client: pg.Client; postgresPid: number } | undefined;
};

/** The maximum share of failed requests. A closed loop with a higher share does not count. */
const maxFailedShare = 0.01;

/**
 * Puts load from a fixed number of connections on a server, and returns its figures. They include settlements after the
 * last answer, because those belong to the measured calls.
 * @param options.complain receives the reason why a load does not count
 * @returns `calls`, the number of calls since the start of the warm-up
 */
export async function sampleThroughput(
  { label, pid, call, database }: LoadedServer,
  load: { connections: number; warmUpMs: number; durationMs: number },
  { signal, complain }: { signal: AbortSignal; complain: (text: string) => void },
): Promise<ThroughputSample & { calls: number }> {
  const read = () => [readTree(pid)?.cpuMs, database && readTree(database.postgresPid)?.cpuMs] as const;
  const before = read();
  const { perSecond, quantilesMs, failed, answered, answeredInAll } = await runClosedLoop({ call, ...load }, signal);
  if (database) await untilSettled(database.client);
  const after = read();
  if (answered === 0 || failed / answered > maxFailedShare) {
    complain(`Does not count: ${load.connections} connections, ${label}: ${failed} failed, ${answered} answered.`);
    const none = { gatewayCpuMs: undefined, postgresCpuMs: undefined, calls: 0 };
    return { perSecond: Number.NaN, quantilesMs: [], failed, ...none };
  }
  const each = (index: 0 | 1) => {
    const [from, to] = [before[index], after[index]];
    return from === undefined || to === undefined ? undefined : (to - from) / answeredInAll;
  };
  const postgresCpuMs = database ? each(1) : 0;
  return { perSecond, quantilesMs, failed, gatewayCpuMs: each(0), postgresCpuMs, calls: answeredInAll };
}
