import { parseArgs } from "node:util";

export const usage = `npm run bench -- [options]

  --quick    one short round over fewer workspaces and runs, within 90 seconds
  --peers    the Portkey gateway, too, from npm, against the same upstream
  --only A   one part alone: gateway, reports or web
  --help     this text`;

export const parts = ["gateway", "reports", "web"] as const;
export type Part = (typeof parts)[number];

export type Options = { quick: boolean; peers: boolean; help: boolean; parts: ReadonlySet<Part> };

/** Reads the command line. @throws Error that says what is wrong with it */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      peers: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
      only: { type: "string" },
    },
  });
  const { quick, peers, help, only } = values;
  const chosen = parts.filter((part) => only === undefined || part === only);
  if (chosen.length === 0) throw new Error(`--only knows ${parts.join(", ")}`);
  return { quick, peers, help, parts: new Set(chosen) };
}

/**
 * How long and how much. No step begins after `limitMs`, which leaves the last one and the stack's end their time: what
 * there is no time left for is left out.
 */
export type Plan = {
  limitMs: number;
  rounds: number;
  workspaces: number;
  /**
   * Of the closed loops together, before the first round, for each gateway; of the open one a quarter as much. V8 goes on
   * compiling for tens of thousands of calls.
   */
  firstWarmUpMs: number;
  warmUpMs: number;
  openLoop: { perSecond: number; durationMs: number };
  /** `upstreamMs` of the upstream alone, which is to show no more than that it bounds nobody. */
  closedLoop: { connections: readonly number[]; durationMs: number; upstreamMs: number };
  /** After some that do not count. */
  streams: { count: number; staggerMs: number; warmUp: number };
  leaving: { count: number; staggerMs: number; leaveAfter: number };
  /** Runs of one workspace that reports are read over, and the days they are spread over. */
  reports: { runs: number; days: number; readings: number };
  /** Of each page, after some that do not count: V8 compiles it by and by. */
  pages: { readings: number; warmUp: number };
};

const full: Plan = {
  limitMs: 590_000,
  rounds: 3,
  workspaces: 1_000,
  firstWarmUpMs: 24_000,
  warmUpMs: 1_000,
  openLoop: { perSecond: 200, durationMs: 6_000 },
  closedLoop: { connections: [16, 64], durationMs: 5_000, upstreamMs: 2_000 },
  streams: { count: 50, staggerMs: 40, warmUp: 10 },
  leaving: { count: 50, staggerMs: 10, leaveAfter: 10 },
  reports: { runs: 1_000_000, days: 365, readings: 15 },
  pages: { readings: 300, warmUp: 600 },
};

const quick: Plan = {
  ...full,
  limitMs: 86_000,
  rounds: 1,
  workspaces: 200,
  firstWarmUpMs: 1_000,
  warmUpMs: 500,
  openLoop: { perSecond: 200, durationMs: 2_000 },
  closedLoop: { connections: [16, 64], durationMs: 2_000, upstreamMs: 1_000 },
  streams: { count: 50, staggerMs: 20, warmUp: 10 },
  reports: { runs: 40_000, days: 365, readings: 7 },
  pages: { readings: 75, warmUp: 150 },
};

export const planOf = (options: Pick<Options, "quick">): Plan => (options.quick ? quick : full);
