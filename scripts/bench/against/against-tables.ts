import type { Plan } from "../options.ts";
import { figureText } from "../report/rows.ts";
import { markdownTable } from "../report/tables.ts";
import { curveShares, ratios } from "../statistics.ts";
import { callers } from "./callers.ts";
import { type AgainstMeasurements, type Load, loadsOf } from "./measure-against.ts";

/** Returns a load's figure in each round; NaN for a round that does not count. */
type Figure = (load: Load) => number[];

const p50 = (curveShares as readonly number[]).indexOf(0.5);

/** Returns the figures with their number of digits. */
function figuresOf({ samples, counts }: AgainstMeasurements): [what: string, figure: Figure, digits: number][] {
  const isOf = (load: Load) => (one: Load) =>
    one.label === load.label && one.caller === load.caller && one.connections === load.connections;
  const sampled =
    (read: (sample: (typeof samples)[number]) => number | undefined): Figure =>
    (load) =>
      samples.filter(isOf(load)).map((sample) => read(sample) ?? Number.NaN);
  const counted =
    (read: (count: (typeof counts)[number]) => number): Figure =>
    (load) =>
      counts.filter(isOf(load)).map(read);
  return [
    ["calls a second", sampled(({ perSecond }) => perSecond), 0],
    ["p50, ms", sampled(({ quantilesMs }) => quantilesMs[p50]), 2],
    ["CPU server a call, ms", sampled(({ gatewayCpuMs }) => gatewayCpuMs), 3],
    ["CPU Postgres a call, ms", sampled(({ postgresCpuMs }) => postgresCpuMs), 3],
    ["statement time a call, ms", sampled(({ statementMs }) => statementMs), 3],
    ["statements sent a call", counted(({ sent }) => sent), 2],
    ["statements executed a call", counted(({ all }) => all), 1],
  ];
}

const textOf = (samples: readonly number[], digits: number) =>
  figureText({ samples: samples.filter((sample) => Number.isFinite(sample)), unit: "", digits });

/** Returns the tables of figures and ratios: medians with ranges, where a ratio compares figures of the same round. */
export function againstTables(measured: AgainstMeasurements, plan: Plan): string {
  const { against } = plan;
  const loads = measured.machineLoads.map((load) => load.toFixed(2)).join(", ");
  return [
    `The machine's 1-minute load before the rounds: ${loads}.`,
    ...(measured.part === "web"
      ? [webTable(measured, plan), memoryText(measured)]
      : [keyTable(measured, against.connections), callerTable(measured, against)]),
  ].join("\n\n");
}

/**
 * Returns the table of the web server's requests. Of the figures, only those of the server itself are measured. Supabase
 * Auth answers `/user` in place of our session endpoint.
 */
function webTable(measured: AgainstMeasurements, plan: Plan): string {
  const { ours, theirs, peers } = measured.labels;
  const others = [theirs, ...peers];
  const lines = loadsOf("web", plan).flatMap(({ caller, connections }) =>
    figuresOf(measured)
      .slice(0, 3)
      .map(([what, figure, digits]) => {
        const of = (label: string) => figure({ label, caller, connections });
        return [
          `${connections}, ${caller}: ${what}`,
          ...[ours, ...others].map((label) => textOf(of(label), digits)),
          ...others.map((label) => textOf(ratios(of(ours), of(label)), 2)),
        ];
      }),
  );
  const head = ["connections, request", ours, ...others];
  return markdownTable([...head, ...others.map((label) => `${ours} ÷ ${label}`)], lines);
}

function memoryText({ memory }: AgainstMeasurements): string {
  const each = memory.map(({ label, bytes = Number.NaN }) => `${label} ${(bytes / 1_048_576).toFixed(0)} MB`);
  return `Memory after the rounds: ${each.join(", ")}.`;
}

/** Returns the table of calls of many keys. */
function keyTable(measured: AgainstMeasurements, connections: readonly number[]): string {
  const { ours, theirs, peers } = measured.labels;
  const contenders = [ours, theirs, ...peers];
  const pairs = [
    [ours, theirs],
    ...peers.flatMap((peer) => [
      [ours, peer],
      [theirs, peer],
    ]),
  ] as [string, string][];
  const lines = connections.flatMap((count) =>
    figuresOf(measured).map(([what, figure, digits]) => {
      const of = (label: string) => figure({ label, caller: "keys", connections: count });
      return [
        `${count}: ${what}`,
        ...contenders.map((label) => textOf(of(label), digits)),
        ...pairs.map(([one, other]) => textOf(ratios(of(one), of(other)), 2)),
      ];
    }),
  );
  return markdownTable(["connections", ...contenders, ...pairs.map((pair) => pair.join(" ÷ "))], lines);
}

/** Returns the table of the other callers, with the ratios to calls of many keys. */
function callerTable(measured: AgainstMeasurements, { callerConnections: connections }: Plan["against"]): string {
  const { ours, theirs } = measured.labels;
  const contenders = [ours, theirs];
  const lines = callers.slice(1).flatMap((caller) =>
    figuresOf(measured).map(([what, figure, digits]) => {
      const of = (label: string) => figure({ label, caller, connections });
      const ofKeys = (label: string) => figure({ label, caller: "keys", connections });
      return [
        `${connections}, ${caller}: ${what}`,
        ...contenders.map((label) => textOf(of(label), digits)),
        textOf(ratios(of(ours), of(theirs)), 2),
        ...contenders.map((label) => textOf(ratios(of(label), ofKeys(label)), 2)),
      ];
    }),
  );
  const head = ["connections, caller", ...contenders, `${ours} ÷ ${theirs}`];
  return markdownTable([...head, ...contenders.map((label) => `${label} ÷ its keys`)], lines);
}
