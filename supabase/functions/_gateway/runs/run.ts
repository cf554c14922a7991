import type { Attempt } from "../../_shared/attempt.ts";
import { computeRunCost, type RunCost } from "../../_shared/call-price.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import { jsonNumber } from "../../_shared/raw-json.ts";
import type { GatewayDatabase, Run } from "../database/database.ts";
import { isNearTokenLimit } from "../database/rate-limits.ts";
import { envelopeMember, releaseUnused } from "../envelopes/envelope-room.ts";
import type { Provider } from "../providers/provider-settings.ts";
import { ignoredNames, type ParsedRequest } from "../requests/parsed-request.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import { type CallUse, isCharged } from "../usage/usage.ts";
import { type CapturedContent, captureContent } from "./captured-content.ts";
import type { EndedRun, TracedStep } from "./ended-run.ts";
import type { CurrentCounts, OpenRuns } from "./open-runs.ts";
import { readRunFacts, totalCounts } from "./run-cost.ts";
import type { Outcome, Settlements, Step, UsageSource } from "./settlements.ts";

/** The services that a run uses. */
export type RunServices = {
  database: Pick<GatewayDatabase, "storeRunContent">;
  providers: ReadonlyMap<string, Provider>;
  settlements: Settlements;
  openRuns: OpenRuns;
  /** Returns the time of a monotonic clock in milliseconds. */
  now: () => number;
  waitUntil: (work: Promise<unknown>) => void;
  /** Receives defects and outages, never the content of requests or answers. */
  report: (error: unknown, requestId?: string) => void;
  telemetry: { runBegan?: (run: { stream: boolean }) => void; run?: (run: EndedRun) => void };
};

export type RunEnd = {
  status: Outcome["status"];
  httpStatus: number;
  errorCode?: string;
  /** Usage of the run's last call. Absent if unknown. */
  use?: CallUse;
  firstByteMs?: number;
  /**
   * True if the last provider call certainly cost nothing. The idempotency key can then be used again, unless an
   * earlier call cost something.
   */
  keyUnused?: boolean;
  /** The answer. Absent if it is incomplete. */
  answer?: WholeAnswerText;
};

/** A complete answer: the texts of its choices, and the whole answer as JSON. */
export type WholeAnswerText = { texts?: () => OutputTexts; text: (platform: Platform) => string };

/** The `platform` member of native responses, with the charged token counts. */
export type Platform = Record<string, unknown> & { usage: TokenCounts };

/** A run that the database has begun. It ends exactly once. */
export type OpenRun = {
  run: Run;
  steps: Step[];
  /** The attempts so far, in order: requests to providers and skipped routes. */
  attempts: Attempt[];
  /**
   * Token counts of the current provider call. The code that relays the answer updates them, and the heartbeat reads
   * them.
   */
  progress: CurrentCounts;
  content: CapturedContent;
  /** Whether the response began before there was an answer, so that a failure can no longer have a status. */
  hasResponseBegun: boolean;
  /** Whether the current call has been sent to a provider, which may charge for it from then on. */
  dispatched: boolean;
  /** Adds a finished step to the trace. For a provider call, also adds its attempt to `attempts`. */
  addStep: (step: Pick<Step, "type" | "name" | "status">, startedAt: number, attempt?: Attempt) => void;
  /** Records the usage of a finished call when the run continues with another call. */
  finishCall: (use: CallUse) => void;
  /** Returns whether an earlier call of the run has finished and is charged. */
  hasCharged: () => boolean;
  /** Returns the total usage of the finished calls. */
  totalUsage: () => TokenCounts;
  /**
   * Settles the run in the background and returns its `platform` metadata. Later calls only return the same metadata.
   */
  end: (end: RunEnd) => Platform;
};

/** The details that identify a run in telemetry. */
type RunLabels = Pick<EndedRun, "requestId" | "path" | "feature">;

/** Creates the state of a run that the database has begun. */
export function openRun(
  services: RunServices,
  {
    run,
    startedAt,
    request,
    labels,
    onEnd,
  }: { run: Run; startedAt: number; request: ParsedRequest; labels: RunLabels; onEnd?: () => void },
): OpenRun {
  const { openRuns, settlements, now } = services;
  const content = captureContent(services, run);
  const steps: Step[] = [];
  const attempts: Attempt[] = [];
  const tracedSteps: TracedStep[] = [];
  const progress: CurrentCounts = { input_tokens: 0, output_tokens: 0 };
  const finishedCalls: CallUse[] = [];
  const charges = new Map<Attempt, CallUse>();
  const release = openRuns.track(run, () => {
    const { route, ...usage } = progress;
    const calls: CallUse[] = [
      ...finishedCalls,
      ...(route === undefined ? [] : [{ route, usage, basis: "guess" as const }]),
    ];
    const { input_tokens = 0, output_tokens = 0 } = totalCounts(calls);
    return { route, input_tokens, output_tokens, cost_usd: computeRunCost(run, calls).cost_usd };
  });
  services.telemetry.runBegan?.(request);
  let platform: Platform | undefined;
  function providerOf(last: CallUse | undefined) {
    const { provider: id = "" } = run.routes.find(({ position }) => position === last?.route) ?? run.routes[0] ?? {};
    return services.providers.get(id);
  }
  return {
    run,
    steps,
    attempts,
    progress,
    content,
    hasResponseBegun: false,
    dispatched: false,
    addStep(step, stepStartedAt, attempt) {
      const endedAt = now();
      steps.push({ step: steps.length + 1, ...step, latency_ms: Math.round(endedAt - stepStartedAt) });
      tracedSteps.push({ ...step, startedAt: stepStartedAt, endedAt, attempt });
      if (attempt) attempts.push(attempt);
    },
    finishCall(use) {
      finishedCalls.push(use);
      recordCharge(charges, use, attempts);
      this.dispatched = false;
      progress.input_tokens = 0;
      progress.output_tokens = 0;
    },
    hasCharged: () => finishedCalls.some(isCharged),
    totalUsage: () => totalCounts(finishedCalls),
    end(end) {
      if (platform) return platform;
      release();
      onEnd?.();
      const latencyMs = Math.round(now() - startedAt);
      const calls = [...finishedCalls, ...(end.use ? [end.use] : [])];
      if (end.use) recordCharge(charges, end.use, attempts);
      const source = chooseUsageSource(calls, { ...end, attempts, charges });
      const cost = computeRunCost(run, calls);
      releaseUnused(run, cost.cost_usd);
      const provider = providerOf(calls.at(-1));
      const outcome: Outcome = {
        created_at: run.created_at,
        id: run.run_id,
        status: end.status,
        http_status: end.httpStatus,
        error_code: end.errorCode,
        usage_source: source,
        route: calls.at(-1)?.route,
        estimated: calls.some(({ basis }) => basis === "guess"),
        ...totalCounts(calls),
        ...cost,
        ...readRunFacts(run, calls, request),
        billing_name: provider?.billingName,
        billing_account: provider?.account,
        first_byte_ms: end.firstByteMs,
        latency_ms: latencyMs,
        steps: [...steps],
        ...(attempts.length > 0 ? { attempts: reportedAttempts(attempts, charges) } : {}),
        key_unused: finishedCalls.length === 0 && (end.keyUnused ?? false),
      };
      const schemaValid = end.answer?.texts && request.checkAnswer?.(end.answer.texts());
      const ignored = ignoredNames(request, provider);
      const metadata = platformMetadata(run, { calls, cost, source, steps, latencyMs, schemaValid, ignored });
      platform = metadata;
      content.storeAnswer(
        () => end.answer?.text(metadata),
        () => settlements.add(outcome, { workspaceId: run.workspace_id, promptly: isNearTokenLimit(run) }),
      );
      const { stream, outputLimit, choices } = request;
      services.telemetry.run?.({
        ...labels,
        run,
        request: { stream, outputLimit, choices },
        outcome,
        steps: withUse(tracedSteps, charges),
        attempts,
        startedAt,
        endedAt: now(),
      });
      return metadata;
    },
  };
}

/** Adds the usage of provider calls to their steps. */
function withUse(steps: readonly TracedStep[], charges: ReadonlyMap<Attempt, CallUse>): TracedStep[] {
  return steps.map((step) => {
    const use = step.attempt && charges.get(step.attempt);
    return use ? { ...step, usage: use.usage, servedTier: use.servedTier } : step;
  });
}

/**
 * Records a call's charge for the attempt that made the call: the last attempt at the call's route, not counting
 * skipped attempts.
 */
function recordCharge(charges: Map<Attempt, CallUse>, use: CallUse, attempts: readonly Attempt[]): void {
  const attempt = attempts.findLast(({ failure, route }) => failure !== "skipped" && route === use.route);
  if (attempt && !charges.has(attempt)) charges.set(attempt, use);
}

/**
 * Returns the attempts in stored form. Leaves out an attempt's counts if it is the last one and the only one charged,
 * since the run has the same counts.
 */
function reportedAttempts(attempts: readonly Attempt[], charges: ReadonlyMap<Attempt, CallUse>): Attempt[] {
  const last = attempts.findLast(({ failure }) => failure !== "skipped");
  return attempts.map((attempt) => {
    const use = charges.size > 1 || attempt !== last ? charges.get(attempt) : undefined;
    if (!use) return attempt;
    return { ...attempt, charged: { ...use.usage, served_tier: use.servedTier, stated_cost_usd: use.statedCostUsd } };
  });
}

/**
 * Returns whether another attempt followed one that may have been charged and stated no usage. If so, the run's counts
 * don't include that earlier attempt.
 */
function hasUncountedAttempt(attempts: readonly Attempt[], charges: ReadonlyMap<Attempt, CallUse>): boolean {
  const sent = attempts.filter(({ failure }) => failure !== "skipped");
  return sent.slice(0, -1).some((attempt) => attempt.may_have_charged && !charges.has(attempt));
}

/** Returns how a run's token counts were determined. */
function chooseUsageSource(
  calls: readonly CallUse[],
  {
    status,
    use,
    attempts,
    charges,
  }: Pick<RunEnd, "status" | "use"> & { attempts: readonly Attempt[]; charges: ReadonlyMap<Attempt, CallUse> },
): UsageSource {
  if (calls.length === 0) return "unavailable";
  if (calls.some(({ basis }) => basis !== "final")) {
    return status === "succeeded" ? "provider_partial" : "estimated_partial";
  }
  return use && !hasUncountedAttempt(attempts, charges) ? "provider" : "provider_partial";
}

/** Returns the `platform` metadata of a response, with the amounts that settlement charges. */
function platformMetadata(
  run: Run,
  end: {
    calls: readonly CallUse[];
    cost: RunCost;
    source: UsageSource;
    steps: Step[];
    latencyMs: number;
    schemaValid?: boolean;
    ignored: string[];
  },
): Platform {
  return {
    run_id: run.run_id,
    trace_id: run.run_id.replaceAll("-", ""),
    steps: end.steps,
    billed_credits: jsonNumber(run.exempt ? "0" : end.cost.credits),
    ...(run.cost_visible ? { provider_cost_usd: jsonNumber(end.cost.cost_usd) } : {}),
    usage: {
      input_tokens: 0,
      cached_input_tokens: 0,
      output_tokens: 0,
      reasoning_tokens: 0,
      ...totalCounts(end.calls),
    },
    usage_source: end.source,
    ...envelopeMember(run),
    ...(end.schemaValid === undefined ? {} : { schema_valid: end.schemaValid }),
    ...(end.ignored.length === 0 ? {} : { ignored: end.ignored }),
    latency_ms: end.latencyMs,
  };
}
