import type { Plan } from "../options.ts";
import type { Row } from "../report/rows.ts";
import { curveShares, median } from "../statistics.ts";
import type { GatewayMeasurements, LatencySample, LoadName, ThroughputSample } from "./measurements.ts";
import type { TargetName } from "./targets.ts";

const [p50, p99] = [0.5, 0.99].map((share) => (curveShares as readonly number[]).indexOf(share));
/** What the throughput's goals are over (docs/performance.md). */
const goalWorkspaces = 1_000;
const notRun = "Portkey did not run: npm run bench -- --peers";

/** What the rounds say of the gateway, beside its goals. */
export function gatewayRows(
  measured: GatewayMeasurements,
  { openLoop: { perSecond }, workspaces, streams: { count } }: Pick<Plan, "openLoop" | "workspaces" | "streams">,
): Row[] {
  const loads = (Object.keys(measured.throughput) as LoadName[]).filter((name) => name !== "hot");
  return [
    ...latencyRows(measured, perSecond),
    ...loads.flatMap((name) => throughputRows(measured, { load: name, workspaces })),
    hotRow(measured),
    ...costRows(measured, workspaces),
    ...streamRows(measured, count),
    ...writtenRows(measured),
  ];
}

const at = (sample: { quantilesMs: number[] } | undefined, index = -1) => sample?.quantilesMs[index] ?? Number.NaN;
/** Without the loads that do not count. */
const known = (samples: readonly number[]) => samples.filter((sample) => !Number.isNaN(sample));
const texts = (samples: readonly number[], digits = 1) =>
  known(samples).length ? median(known(samples)).toFixed(digits) : "—";

/** The worst round's, where something has to hold each time. */
const least = (samples: readonly number[]) => (samples.length ? [Math.min(...samples)] : []);

/**
 * A figure of ours, less that of the upstream alone in the same round, where that one has not failed, nor taken longer
 * by itself: then something else held it up, and the difference says nothing of us.
 */
function added(ours: readonly number[] = [], bare: readonly number[] = []): number[] {
  return ours.flatMap((figure, round) => {
    const beside = bare[round] ?? Number.NaN;
    return Number.isNaN(figure) || !Number.isFinite(beside) || figure < beside ? [] : figure - beside;
  });
}

function unlikeOf(workspaces: number): Row["unlike"] {
  return workspaces < goalWorkspaces
    ? { how: `over ${workspaces} workspaces, not ${goalWorkspaces.toLocaleString("en")}`, easier: false }
    : undefined;
}

/** wrk times an answer whatever its status is. */
function errorsOf(samples: readonly ThroughputSample[], by: GatewayMeasurements["closedLoopBy"]): string {
  const failed = samples.reduce((sum, sample) => sum + sample.failed, 0);
  if (failed === 0) return "";
  return by === "wrk" ? `${failed} errors, in the quantiles by wrk` : `${failed} errors, which took for ever`;
}

function latencyRows({ latency }: GatewayMeasurements, perSecond: number): Row[] {
  const figures = (target: TargetName, index = -1) =>
    (latency[target] ?? []).map((sample: LatencySample) => at(sample, index));
  const beside = (index = -1) =>
    (["gatehouse", "bare", "portkey"] as const)
      .filter((target) => latency[target])
      .map((target) => `${target} ${texts(figures(target, index), 2)}`)
      .join(", ");
  const late = (latency.gatehouse ?? []).map(({ sentLateMs }) => sentLateMs);
  const row = { unit: "ms", digits: 2 };
  return [
    {
      ...row,
      id: "added-p50",
      what: `added at ${perSecond} requests a second, p50`,
      goal: { atMost: 1 },
      samples: added(figures("gatehouse", p50), figures("bare", p50)),
      note: `p50 in all: ${beside(p50)}`,
    },
    {
      ...row,
      id: "added-p99",
      what: `added at ${perSecond} requests a second, p99`,
      goal: { atMost: 8 },
      samples: added(figures("gatehouse", p99), figures("bare", p99)),
      note: `p99 in all: ${beside(p99)}; ours sent up to ${texts(late, 2)} late (p99)`,
    },
  ];
}

function throughputRows(
  { throughput, closedLoopBy }: GatewayMeasurements,
  { load, workspaces }: { load: LoadName; workspaces: number },
): Row[] {
  const of = (target: TargetName): ThroughputSample[] => throughput[load]?.[target] ?? [];
  const rates = (target: TargetName) => known(of(target).map((sample) => sample.perSecond));
  const tails = (target: TargetName) => known(of(target).map((sample) => at(sample, p99)));
  const peer = { rate: median(rates("portkey")), tail: median(tails("portkey")) };
  const name = `${load} connections, ${workspaces.toLocaleString("en")} workspaces`;
  const noPeer = rates("portkey").length === 0;
  const unlike = unlikeOf(workspaces);
  const errors = errorsOf(of("gatehouse"), closedLoopBy);
  return [
    {
      id: `rate-${load}`,
      what: name,
      goal: { atLeast: noPeer ? 4_000 : Math.max(4_000, peer.rate) },
      unit: "a second",
      digits: 0,
      samples: rates("gatehouse"),
      unlike,
      note: `upstream alone ${texts(rates("bare"), 0)}, Portkey ${texts(rates("portkey"), 0)}; by ${closedLoopBy}`,
    },
    {
      id: `p99-${load}`,
      what: `${name}, p99 against Portkey's`,
      goal: { atMost: peer.tail },
      unit: "ms",
      digits: 1,
      samples: noPeer ? [] : tails("gatehouse"),
      unlike,
      note: [errors, ...(noPeer ? [`ours ${texts(tails("gatehouse"))} ms`, notRun] : [])].filter(Boolean).join("; "),
    },
  ];
}

function hotRow({ throughput, closedLoopBy }: GatewayMeasurements): Row {
  const samples = throughput.hot?.gatehouse ?? [];
  return {
    id: "rate-hot",
    what: "one hot workspace",
    goal: { atLeast: 2_000 },
    unit: "a second",
    digits: 0,
    samples: known(samples.map((sample) => sample.perSecond)),
    note: [`p99 ${texts(samples.map((sample) => at(sample, p99)))} ms`, errorsOf(samples, closedLoopBy)]
      .filter(Boolean)
      .join("; "),
  };
}

/** Requests that a CPU-second of the gateway's own process carries, at the most connections over many workspaces. */
function costRows({ throughput }: GatewayMeasurements, workspaces: number): Row[] {
  const load = (Object.keys(throughput) as LoadName[]).filter((name) => name !== "hot").at(-1) ?? "hot";
  const perCpuSecond = (target: TargetName) =>
    (throughput[load]?.[target] ?? []).flatMap(({ cpuMsEach }) => (cpuMsEach ? 1_000 / cpuMsEach : []));
  const [ours, peer] = [perCpuSecond("gatehouse"), perCpuSecond("portkey")];
  const postgres = (throughput[load]?.gatehouse ?? []).flatMap(({ postgresCpuMsEach }) => postgresCpuMsEach ?? []);
  const cost = (rates: readonly number[]) => (rates.length ? `${(1_000 / median(rates)).toFixed(3)} ms` : "—");
  return [
    {
      id: "cpu-ratio",
      what: "requests a gateway CPU-second, ours to Portkey's",
      goal: { atLeast: 2 },
      unit: "×",
      digits: 2,
      samples: peer.length ? ours.map((rate, round) => rate / (peer[round] ?? median(peer))) : [],
      unlike: unlikeOf(workspaces),
      note:
        `CPU a request: Gatehouse ${cost(ours)} and Postgres ${texts(postgres, 3)} ms, Portkey ${cost(peer)}` +
        (peer.length ? "" : `; ${notRun}`),
    },
  ];
}

function streamRows({ streams, leaving }: GatewayMeasurements, count: number): Row[] {
  const of = (target: TargetName) => streams[target] ?? [];
  const first = (target: TargetName) => of(target).map(({ firstMs }) => median(firstMs));
  const delay = (target: TargetName, index = -1) =>
    of(target).map(({ delayQuantilesMs }) => delayQuantilesMs[index] ?? Number.NaN);
  const name = `${count} paced streams`;
  return [
    {
      id: "first-token",
      what: `${name}: added to the first token, median`,
      goal: { atMost: 3 },
      unit: "ms",
      digits: 2,
      samples: added(first("gatehouse"), first("bare")),
      note: `Portkey adds ${texts(added(first("portkey"), first("bare")), 1)}`,
    },
    {
      id: "chunk-delay",
      what: `${name}: a content chunk is passed on within, p99`,
      goal: { atMost: 1 },
      unit: "ms",
      digits: 2,
      samples: added(delay("gatehouse", p99), delay("bare", p99)),
      note: `median ${texts(added(delay("gatehouse", p50), delay("bare", p50)), 2)}; the way without us taken off`,
    },
    {
      id: "identical",
      what: `${name}: content byte for byte`,
      goal: { atLeast: count },
      unit: "",
      digits: 0,
      samples: least(of("gatehouse").map(({ identical }) => identical)),
    },
    {
      id: "left-cancelled",
      what: `${count} clients that leave: provider calls cancelled`,
      goal: { atLeast: count },
      unit: "",
      digits: 0,
      samples: least(leaving.map(({ cancelled }) => cancelled)),
    },
    {
      id: "left-metered",
      what: `${count} clients that leave: runs metered`,
      goal: { atLeast: count },
      unit: "",
      digits: 0,
      samples: least(leaving.map(({ metered }) => metered)),
    },
  ];
}

function writtenRows({ rss, books }: GatewayMeasurements): Row[] {
  const megabytes = rss.map(({ bytes }) => bytes / 2 ** 20);
  return [
    {
      id: "memory",
      what: "memory of the functions, at most",
      goal: { atMost: 200 },
      unit: "MB",
      digits: 0,
      samples: megabytes.length ? [Math.max(...megabytes)] : [],
      unlike: { how: "of half an hour, and flat, it is npm run soak's", easier: true },
      note: megabytes.length
        ? `${megabytes[0]?.toFixed(0)} before, ${megabytes.at(-1)?.toFixed(0)} after`
        : "read from /proc, on Linux alone",
    },
    {
      id: "unbalanced",
      what: "workspaces whose ledger, runs and report differ",
      goal: { atMost: 0 },
      unit: "",
      digits: 0,
      samples: books ? [books.unbalanced] : [],
      note: books && `${books.runs.toLocaleString("en")} runs, ${books.cancelled} of them left by their client`,
    },
    {
      id: "wrong-counts",
      what: "runs that say other than the provider",
      goal: { atMost: 0 },
      unit: "",
      digits: 0,
      samples: books ? [books.wrong] : [],
    },
  ];
}
