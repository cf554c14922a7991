import { parseArgs } from "node:util";

export const usage = `npm run bench -- [options]

  --quick       one short round over fewer workspaces and runs; its figures are not judged
  --peers       measures Portkey (from npm) and LiteLLM (from PyPI) in the same rounds
  --only A      runs one part: gateway, reports, web or growth, which runs alone and continues where it was stopped
  --write FILE  replaces the tables between the bench's markers in a Markdown file
  --help        prints this text`;

/** What a bench without --only runs. */
export const parts = ["gateway", "reports", "web"] as const;
export type Part = (typeof parts)[number] | "growth";

export type Options = {
  quick: boolean;
  peers: boolean;
  help: boolean;
  parts: ReadonlySet<Part>;
  write: string | undefined;
};

/** Reads the command line. @throws Error for an unknown option or part */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      peers: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
      only: { type: "string" },
      write: { type: "string" },
    },
  });
  const { only, write, ...flags } = values;
  const known: readonly Part[] = [...parts, "growth"];
  const chosen = only === undefined ? parts : known.filter((part) => part === only);
  if (chosen.length === 0) throw new Error(`--only takes one of ${known.join(", ")}`);
  return { ...flags, write, parts: new Set(chosen) };
}

export type Plan = {
  rounds: number;
  workspaces: number;
  /** Closed-loop load on each gateway before the first round; V8 compiles for tens of thousands of calls. */
  firstWarmUpMs: number;
  warmUpMs: number;
  openLoop: { perSecond: number; durationMs: number };
  /** The upstream alone runs for `upstreamMs`, enough to show that it is not the bottleneck. */
  closedLoop: { connections: readonly [number, number]; durationMs: number; upstreamMs: number };
  streams: { count: number; staggerMs: number; warmUp: number };
  /** Runs of one workspace, and the days they are spread over. */
  reports: { runs: number; days: number; readings: number };
  pages: { readings: number; warmUp: number };
  /** Multiples of the smallest database. */
  growth: readonly number[];
};

const full: Plan = {
  rounds: 3,
  workspaces: 1_000,
  firstWarmUpMs: 16_000,
  warmUpMs: 1_000,
  openLoop: { perSecond: 200, durationMs: 6_000 },
  closedLoop: { connections: [16, 64], durationMs: 5_000, upstreamMs: 2_000 },
  streams: { count: 50, staggerMs: 40, warmUp: 10 },
  reports: { runs: 1_000_000, days: 365, readings: 15 },
  pages: { readings: 300, warmUp: 600 },
  growth: [1, 10, 100],
};

const quick: Plan = {
  rounds: 1,
  workspaces: 200,
  firstWarmUpMs: 2_000,
  warmUpMs: 500,
  openLoop: { perSecond: 200, durationMs: 2_000 },
  closedLoop: { connections: [16, 64], durationMs: 2_000, upstreamMs: 1_000 },
  streams: { count: 50, staggerMs: 20, warmUp: 10 },
  reports: { runs: 40_000, days: 365, readings: 7 },
  pages: { readings: 75, warmUp: 150 },
  growth: [1, 10],
};

export const planOf = (options: Pick<Options, "quick">): Plan => (options.quick ? quick : full);
