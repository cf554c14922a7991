import { type Decimal, formatDecimal, parseDecimal } from "../_shared/decimal.ts";
import { type TokenCounts, usageCostUsd, usdToCredits } from "../_shared/money.ts";
import { jsonNumber } from "../_shared/raw-json.ts";
import type { Run, RunRoute } from "./database.ts";
import type { Gateway } from "./gateway.ts";
import type { CountsSoFar } from "./open-runs.ts";
import type { Outcome, UsageSource } from "./settlements.ts";
import type { Step } from "./steps.ts";

/** How a run ended. */
export type RunEnd = {
  status: Outcome["status"];
  httpStatus: number;
  errorCode?: string;
  route?: RunRoute;
  usage: TokenCounts;
  source: UsageSource;
  /** The usage is our guess. */
  estimated: boolean;
  firstByteMs?: number;
  keyUnused?: boolean;
};

/** A run from its beginning to its one end. */
export type OpenRun = {
  run: Run;
  steps: Step[];
  /** Counts so far; kept up to date by whoever passes the answer on, read by the heartbeat. */
  progress: CountsSoFar;
  /** Adds to the step trace what began at a moment and has just ended. */
  addStep: (step: Pick<Step, "type" | "name" | "status">, startedAt: number) => void;
  /** Settles the run behind the answer and returns its `platform` metadata. Only the first end counts. */
  end: (end: RunEnd) => Record<string, unknown>;
};

/** Takes charge of a run that the database has begun. */
export function openRun({ openRuns, settlements, now }: Gateway, run: Run, startedAt: number): OpenRun {
  const steps: Step[] = [];
  const progress: CountsSoFar = { input_tokens: 0, output_tokens: 0 };
  const release = openRuns.track(run, () => progress);
  let platform: Record<string, unknown> | undefined;
  return {
    run,
    steps,
    progress,
    addStep(step, stepStartedAt) {
      steps.push({ step: steps.length + 1, ...step, latency_ms: Math.round(now() - stepStartedAt) });
    },
    end(end) {
      if (platform) return platform;
      release();
      const latencyMs = Math.round(now() - startedAt);
      settlements.add({
        created_at: run.created_at,
        id: run.run_id,
        status: end.status,
        http_status: end.httpStatus,
        error_code: end.errorCode,
        usage_source: end.source,
        estimated: end.estimated,
        route: end.route?.position,
        usage: end.usage,
        first_byte_ms: end.firstByteMs,
        latency_ms: latencyMs,
        steps: [...steps],
        key_unused: end.keyUnused ?? false,
      });
      platform = platformMetadata(run, { ...end, steps, latencyMs });
      return platform;
    },
  };
}

/** Native response metadata (spec.md, Text request rules): what the database will settle, to the last digit. */
function platformMetadata(run: Run, end: RunEnd & { steps: Step[]; latencyMs: number }): Record<string, unknown> {
  const cost = costOf(run, end);
  const credits = usdToCredits(cost, run.markup);
  const billed = end.estimated ? atMost(credits, run.reserved_credits) : credits;
  return {
    run_id: run.run_id,
    trace_id: run.run_id.replaceAll("-", ""),
    steps: end.steps,
    billed_credits: jsonNumber(run.exempt ? "0" : formatDecimal(billed)),
    ...(run.cost_visible ? { provider_cost_usd: jsonNumber(formatDecimal(cost)) } : {}),
    usage: { input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, reasoning_tokens: 0, ...end.usage },
    usage_source: end.source,
    latency_ms: end.latencyMs,
  };
}

function costOf(run: Run, { route, usage, source, estimated }: RunEnd): Decimal {
  if (source === "unavailable" || !route) return { units: 0n, scale: 0 };
  const cost = usageCostUsd(route.prices, usage);
  return estimated ? atMost(cost, run.reserved_usd) : cost;
}

function atMost(value: Decimal, limitText: string): Decimal {
  const limit = parseDecimal(limitText);
  const scale = Math.max(value.scale, limit.scale);
  const shifted = (each: Decimal) => each.units * 10n ** BigInt(scale - each.scale);
  return shifted(value) <= shifted(limit) ? value : limit;
}
