import { figureText, type Row } from "../report/rows.ts";
import { markdownTable } from "../report/tables.ts";
import { curveShares, median, ratios } from "../statistics.ts";
import type { GatewayMeasurements, ThroughputSample } from "./measurements.ts";
import { type TargetName, targetLabels, targetNames } from "./targets.ts";

const [p50, p99] = [0.5, 0.99].map((share) => (curveShares as readonly number[]).indexOf(share));
const loads = [
  { connections: 16, rateGoal: 1.2 },
  { connections: 64, rateGoal: 1.4 },
] as const;
const asRatio = { unit: "×", digits: 2 };

/** Returns one figure of a target for each round; NaN for a round that does not count. */
type Figure = (target: TargetName) => number[];

/**
 * Returns the gateway's figures with their goals. Each figure is the ratio of the gateway's result to the compared
 * server's result in the same round.
 */
export function gatewayRows(measured: GatewayMeasurements): Row[] {
  const { added, firstToken, rate, tail, perCpuSecond } = figuresOf(measured);
  const ratio = (figure: Figure, peer: TargetName) => ratios(figure("gatehouse"), figure(peer));
  const row = asRatio;
  return [
    ...loads.flatMap(({ connections, rateGoal }): Row[] => [
      {
        ...row,
        id: `rate-${connections}`,
        what: `${connections} connections: requests a second, to Portkey's`,
        goal: { atLeast: rateGoal },
        samples: ratio(rate(connections), "portkey"),
      },
      {
        ...row,
        id: `p99-${connections}`,
        what: `${connections} connections: p99, to Portkey's`,
        goal: { atMost: 1 },
        samples: ratio(tail(connections), "portkey"),
      },
      {
        ...row,
        id: `cpu-${connections}`,
        what: `${connections} connections: requests per CPU-second of gateway and Postgres, to Portkey's`,
        goal: { atLeast: 1.2 },
        samples: ratio(perCpuSecond(connections), "portkey"),
      },
      {
        ...row,
        digits: 1,
        id: `litellm-${connections}`,
        what: `${connections} connections: requests a second, to LiteLLM's`,
        goal: { atLeast: 10 },
        samples: ratio(rate(connections), "litellm"),
      },
    ]),
    {
      ...row,
      id: "added-p50",
      what: "added p50 at a fixed rate, to the floor's",
      goal: { atMost: 3 },
      samples: ratio(added, "floor"),
    },
    {
      ...row,
      id: "first-token",
      what: "added to a stream's first token, to Portkey's",
      goal: { atMost: 1 / 3 },
      samples: ratio(firstToken, "portkey"),
    },
    ...writtenRows(measured),
  ];
}

/**
 * Returns a table of the figures from which the ratios are calculated. Each target has a column. Each cell shows the
 * median, lowest and highest figure of the rounds.
 */
export function targetTable(measured: GatewayMeasurements, { perSecond }: { perSecond: number }): string {
  const { latency, firstToken, rate, tail, gatewayCpu, postgresCpu } = figuresOf(measured);
  const columns: [string, Figure, number][] = [
    ...loads.flatMap(({ connections }): [string, Figure, number][] => [
      [`${connections}: a second`, rate(connections), 0],
      [`${connections}: p99, ms`, tail(connections), 0],
      [`${connections}: CPU gateway, ms`, gatewayCpu(connections), 2],
      [`${connections}: CPU Postgres, ms`, postgresCpu(connections), 2],
    ]),
    [`${perSecond} a second: p50, ms`, latency(p50), 2],
    [`${perSecond} a second: p99, ms`, latency(p99), 1],
    ["added to first token, ms", firstToken, 1],
  ];
  const names = targetNames.filter((name) => rate(loads[0].connections)(name).length > 0);
  const lines = columns.map(([what, figure, digits]) => [
    what,
    ...names.map((name) => figureText({ samples: known(figure(name)), unit: "", digits })),
  ]);
  return markdownTable(["", ...names.map((name) => targetLabels[name])], lines);
}

const known = (samples: readonly number[]) => samples.filter((sample) => !Number.isNaN(sample));

/**
 * Returns how much time a target adds to the upstream's own time in each round. Returns NaN for a round in which the
 * target was not slower than the upstream.
 */
function addedTo(bare: readonly number[], figures: readonly number[]): number[] {
  return figures.map((figure, round) => {
    const upstream = bare[round] ?? Number.NaN;
    return Number.isFinite(upstream) && figure > upstream ? figure - upstream : Number.NaN;
  });
}

function figuresOf({ latency, throughput, streams }: GatewayMeasurements) {
  const sampled =
    (read: (sample: ThroughputSample) => number | undefined) =>
    (connections: number): Figure =>
    (target) =>
      (throughput[connections]?.[target] ?? []).map((sample) => read(sample) ?? Number.NaN);
  const cpu = (sample: ThroughputSample) => (sample.gatewayCpuMs ?? Number.NaN) + (sample.postgresCpuMs ?? Number.NaN);
  const latencyAt =
    (index = -1): Figure =>
    (target) =>
      (latency[target] ?? []).map(({ quantilesMs }) => quantilesMs[index] ?? Number.NaN);
  const first: Figure = (target) => (streams[target] ?? []).map(({ firstMs }) => median(firstMs));
  return {
    rate: sampled(({ perSecond }) => perSecond),
    tail: sampled(({ quantilesMs }) => quantilesMs[p99 ?? -1]),
    gatewayCpu: sampled(({ gatewayCpuMs }) => gatewayCpuMs),
    postgresCpu: sampled(({ postgresCpuMs }) => postgresCpuMs),
    perCpuSecond: sampled((sample) => 1_000 / cpu(sample)),
    latency: latencyAt,
    added: ((target) => addedTo(latencyAt(p50)("bare"), latencyAt(p50)(target))) as Figure,
    firstToken: ((target) => addedTo(first("bare"), first(target))) as Figure,
  };
}

function writtenRows({ streams, books }: GatewayMeasurements): Row[] {
  const row = { unit: "", digits: 0 };
  const different = (streams.gatehouse ?? []).map(({ streams: all, identical }) => all - identical);
  const over = books ? ` (of ${books.runs.toLocaleString("en")} runs)` : "";
  return [
    {
      ...row,
      id: "identical",
      what: "streams whose content differs from the provider's, all rounds",
      goal: { atMost: 0 },
      samples: different.length > 0 ? [different.reduce((sum, each) => sum + each)] : [],
    },
    {
      ...row,
      id: "unbalanced",
      what: "workspaces whose balance, ledger, runs and usage report differ",
      goal: { atMost: 0 },
      samples: books ? [books.unbalanced] : [],
    },
    {
      ...row,
      id: "wrong-counts",
      what: `runs that differ from what the provider stated${over}`,
      goal: { atMost: 0 },
      samples: books ? [books.wrong] : [],
    },
  ];
}
