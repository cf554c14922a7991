import { parseArgs } from "node:util";

export const usage = `npm run bench -- [options]

  --quick       one short round over fewer workspaces and runs; its figures are not judged
  --peers       measures Portkey (from npm) and LiteLLM (from PyPI) in the same rounds
  --only A      runs one part: gateway, reports or web; or what runs only alone: growth, which continues where it was
                stopped, plans (of frequent statements, on the largest database of growth), calls (of one workspace),
                bodies (bursts of large requests), slow-commits (many streams of one key while commits are slow), or
                overspend (parallel calls on a budget of one dollar; --peers adds Portkey, and LiteLLM on a database)
  --against C   with --only gateway or web: starts the stack of commit C too, alternates loads with it, and prints the
                ratios. Its code is built below .local/against/ the first time. --peers adds Portkey to the gateway's
                rounds; to the web server's it adds two processes of it, oidc-provider (from npm) and the Supabase
                Auth that IDENTITY_BIN names
  --largest     of growth, measures the largest size only, and keeps the database for the next time
  --write FILE  replaces the tables between the bench's markers in a Markdown file
  --help        prints this text`;

/** Parts that run without --only. */
export const parts = ["gateway", "reports", "web"] as const;
/** Parts that run only if named. */
const partsAlone = ["growth", "plans", "calls", "bodies", "slow-commits", "overspend"] as const;
export type Part = (typeof parts)[number] | (typeof partsAlone)[number];

export type Options = {
  quick: boolean;
  peers: boolean;
  help: boolean;
  largest: boolean;
  parts: ReadonlySet<Part>;
  write: string | undefined;
  /** The commit to compare the gateway or the web server with. */
  against: string | undefined;
};

/** Reads the command line. @throws Error for an unknown option, or for an unknown part after `--only` */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      peers: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
      largest: { type: "boolean", default: false },
      only: { type: "string" },
      write: { type: "string" },
      against: { type: "string" },
    },
  });
  const { only, write, against, ...flags } = values;
  const known: readonly Part[] = [...parts, ...partsAlone];
  const chosen = only === undefined ? parts : known.filter((part) => part === only);
  if (chosen.length === 0) throw new Error(`--only takes one of ${known.join(", ")}`);
  if (against !== undefined && only !== "gateway" && only !== "web") {
    throw new Error("--against takes --only gateway or --only web");
  }
  return { ...flags, write, against, parts: new Set(chosen) };
}

export type Plan = {
  rounds: number;
  workspaces: number;
  /**
   * How long each gateway gets closed-loop load before the first round. V8 keeps optimizing for tens of thousands of
   * calls.
   */
  firstWarmUpMs: number;
  warmUpMs: number;
  openLoop: { perSecond: number; durationMs: number };
  /**
   * `upstreamMs` is the duration of the calls made directly to the upstream. It is long enough to show that the
   * upstream is not the bottleneck.
   */
  closedLoop: { connections: readonly [number, number]; durationMs: number; upstreamMs: number };
  /**
   * The comparison with another commit. Callers other than a key are measured with `callerConnections`, requests of the
   * web server with `webConnections`. `countMs` is the duration of a load whose statements are counted, which slows
   * Postgres down.
   */
  against: {
    rounds: number;
    connections: readonly number[];
    callerConnections: number;
    webConnections: readonly number[];
    durationMs: number;
    countMs: number;
  };
  streams: { count: number; staggerMs: number; warmUp: number };
  /** The number of runs of one workspace, and the number of days they are spread over. */
  reports: { runs: number; days: number; readings: number };
  pages: { readings: number; warmUp: number };
  /** Sizes to measure, as multiples of the smallest database. */
  growth: readonly number[];
  /** Numbers of runs of today that one workspace has, for the reports of a busy day. */
  busyDay: readonly number[];
  /**
   * `count` is the number of calls made for one workspace. `readings` calls are timed before them, and again after
   * them.
   */
  calls: { count: number; readings: number };
  /** The number of parallel calls on a budget that fits 100 of them. */
  overspend: { calls: number };
};

const full: Plan = {
  rounds: 3,
  workspaces: 1_000,
  firstWarmUpMs: 16_000,
  warmUpMs: 1_000,
  openLoop: { perSecond: 200, durationMs: 6_000 },
  closedLoop: { connections: [16, 64], durationMs: 5_000, upstreamMs: 2_000 },
  against: {
    rounds: 5,
    connections: [1, 16, 64],
    callerConnections: 16,
    webConnections: [1, 16],
    durationMs: 5_000,
    countMs: 2_000,
  },
  streams: { count: 50, staggerMs: 40, warmUp: 10 },
  reports: { runs: 1_000_000, days: 365, readings: 15 },
  pages: { readings: 300, warmUp: 600 },
  growth: [1, 10, 100],
  busyDay: [1_000, 84_000, 1_000_000],
  calls: { count: 200_000, readings: 200 },
  overspend: { calls: 1_000 },
};

const quick: Plan = {
  rounds: 1,
  workspaces: 200,
  firstWarmUpMs: 2_000,
  warmUpMs: 500,
  openLoop: { perSecond: 200, durationMs: 2_000 },
  closedLoop: { connections: [16, 64], durationMs: 2_000, upstreamMs: 1_000 },
  against: {
    rounds: 1,
    connections: [1, 16, 64],
    callerConnections: 16,
    webConnections: [1, 16],
    durationMs: 1_500,
    countMs: 1_000,
  },
  streams: { count: 50, staggerMs: 20, warmUp: 10 },
  reports: { runs: 40_000, days: 365, readings: 7 },
  pages: { readings: 75, warmUp: 150 },
  growth: [1, 10],
  busyDay: [1_000, 20_000],
  calls: { count: 5_000, readings: 50 },
  overspend: { calls: 200 },
};

/** Returns the plan for a full or a quick run. With `largest`, growth is measured only at the largest size. */
export function planOf({ quick: isQuick, largest }: Pick<Options, "quick"> & Partial<Pick<Options, "largest">>): Plan {
  const plan = isQuick ? quick : full;
  return largest ? { ...plan, growth: plan.growth.slice(-1) } : plan;
}
