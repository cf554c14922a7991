import type { GatewayMeasurements, LoadName } from "../gateway/measurements.ts";
import { type TargetName, targetNames } from "../gateway/targets.ts";
import { curveShares, median } from "../statistics.ts";
import { type Bars, barPlot, type Curve, curvePlot, type Series, type Spread, shortNumber, timePlot } from "./plots.ts";

/** A plot with its series, and the same figures as a table. */
export type Figure = {
  title: string;
  plot: string;
  series: readonly Series[];
  head: readonly string[];
  lines: readonly (readonly string[])[];
};

const labels: Record<TargetName, string> = { gatehouse: "Gatehouse", bare: "Upstream alone", portkey: "Portkey" };
const shareNames = curveShares.map((share) => (share === 1 ? "max" : `p${Number((share * 100).toFixed(1))}`));
const memoryGoalMb = 200;

/** The plots of what the rounds have brought; those of which there is nothing are left out. */
export function gatewayFigures(measured: GatewayMeasurements, { perSecond }: { perSecond: number }): Figure[] {
  const { latency, streams } = measured;
  const curve = (title: string, quantiles: (target: TargetName) => number[][]) => curveFigure(title, quantiles);
  return [
    curve(`Latency at ${perSecond} requests a second`, (target) => (latency[target] ?? []).map((s) => s.quantilesMs)),
    throughputFigure(measured),
    costFigure(measured),
    curve("Time to a stream's first token", (target) => (streams[target] ?? []).map((s) => s.firstQuantilesMs)),
    curve("From a chunk's writing to its coming", (target) => (streams[target] ?? []).map((s) => s.delayQuantilesMs)),
    memoryFigure(measured),
  ].flatMap((figure) => figure ?? []);
}

function spreadOf(sample: readonly number[]): Spread {
  return { middle: median(sample), low: Math.min(...sample), high: Math.max(...sample) };
}

function curveFigure(title: string, quantiles: (target: TargetName) => number[][]): Figure | undefined {
  const curves: Curve[] = targetNames.flatMap((kind) => {
    const rounds = quantiles(kind).filter((curve) => curve.length === curveShares.length);
    if (rounds.length === 0) return [];
    const all = curveShares.map((_, index) => spreadOf(rounds.map((curve) => curve[index] ?? Number.NaN)));
    // What failed took for ever, which has no place on an axis: the line ends before it.
    const points = all.slice(0, all.filter(({ high }) => Number.isFinite(high)).length);
    return points.length === 0 ? [] : [{ kind, label: labels[kind], points }];
  });
  if (curves.length === 0) return undefined;
  return {
    title,
    plot: curvePlot({ name: `${title}, in milliseconds by quantile`, unit: "ms", shares: shareNames, curves }),
    series: curves,
    head: ["ms", ...shareNames],
    lines: curves.map(({ label, points }) => [
      label,
      ...curveShares.map((_, index) => shortNumber(points[index]?.middle ?? Number.POSITIVE_INFINITY)),
    ]),
  };
}

function groupsOf(
  { throughput }: GatewayMeasurements,
  { sample, kinds }: { sample: (load: LoadName, kind: TargetName) => number[]; kinds: readonly TargetName[] },
): Bars[] {
  return (Object.keys(throughput) as LoadName[]).map((load) => ({
    label: load === "hot" ? "one hot workspace" : `${load} connections`,
    bars: kinds.flatMap((kind) => {
      const found = sample(load, kind);
      return found.length === 0 ? [] : [{ kind, label: labels[kind], ...spreadOf(found) }];
    }),
  }));
}

function barFigure(title: string, { unit, groups }: { unit: string; groups: readonly Bars[] }): Figure | undefined {
  const filled = groups.filter(({ bars }) => bars.length > 0);
  if (filled.length === 0) return undefined;
  const goals = filled.some(({ goal }) => goal);
  return {
    title,
    plot: barPlot({ name: title, unit, groups: filled }),
    series: targetNames
      .filter((kind) => filled.some(({ bars }) => bars.some((bar) => bar.kind === kind)))
      .map((kind) => ({ kind, label: labels[kind] })),
    head: ["", "", "median", "lowest", "highest", ...(goals ? ["goal"] : [])],
    lines: filled.flatMap(({ label, goal, bars }) =>
      bars.map((bar) => [
        label,
        bar.label,
        ...[bar.middle, bar.low, bar.high].map(shortNumber),
        ...(goals ? [goal ? shortNumber(goal) : ""] : []),
      ]),
    ),
  };
}

function throughputFigure(measured: GatewayMeasurements): Figure | undefined {
  const sample = (load: LoadName, kind: TargetName) =>
    (measured.throughput[load]?.[kind] ?? []).flatMap(({ perSecond }) => (Number.isNaN(perSecond) ? [] : perSecond));
  // The upstream alone is far beyond both, and stands in the table of goals.
  const groups = groupsOf(measured, { sample, kinds: ["gatehouse", "portkey"] });
  const goals = groups.map((group) => ({ ...group, goal: group.label === "one hot workspace" ? 2_000 : 4_000 }));
  return barFigure("Requests a second", { unit: "/s", groups: goals });
}

function costFigure(measured: GatewayMeasurements): Figure | undefined {
  const sample = (load: LoadName, kind: TargetName) =>
    (measured.throughput[load]?.[kind] ?? []).flatMap(({ cpuMsEach }) => (cpuMsEach ? 1_000 / cpuMsEach : []));
  return barFigure("Requests a CPU-second of the gateway's process", {
    unit: "",
    groups: groupsOf(measured, { sample, kinds: ["gatehouse", "portkey"] }),
  });
}

function memoryFigure({ rss }: GatewayMeasurements): Figure | undefined {
  const points = rss.map(({ atSeconds, bytes }) => ({ atSeconds, value: bytes / 2 ** 20 }));
  const [first] = points;
  if (!first) return undefined;
  const title = "Memory of the functions";
  const most = Math.max(...points.map(({ value }) => value));
  return {
    title,
    plot: timePlot({ name: `${title} through the rounds`, unit: "MB", points, goal: memoryGoalMb }),
    series: [{ kind: "gatehouse", label: labels.gatehouse }],
    head: ["MB", "before", "at most", "after", "goal"],
    lines: [["resident", ...[first.value, most, points.at(-1)?.value ?? 0, memoryGoalMb].map(shortNumber)]],
  };
}
