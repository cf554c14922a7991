import type { Attempt } from "../../_shared/attempt.ts";
import { costOfCalls, type RunCost } from "../../_shared/call-price.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import { jsonNumber } from "../../_shared/raw-json.ts";
import { isNearTokenLimit } from "../admission/rate-limits.ts";
import type { Run } from "../database.ts";
import type { Gateway } from "../gateway.ts";
import type { Provider } from "../providers/provider-settings.ts";
import type { SaidTexts } from "../structured/answer-schema.ts";
import type { Asked } from "../surface.ts";
import type { EndedRun, TracedStep } from "../telemetry/ended-run.ts";
import { type CapturedContent, captureContent } from "./captured-content.ts";
import type { CountsSoFar } from "./open-runs.ts";
import { type CallUse, factsOf, isCharged, totalCounts } from "./run-cost.ts";
import type { Outcome, Step, UsageSource } from "./settlements.ts";

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
export type WholeAnswerText = { said?: () => SaidTexts; text: (platform: Platform) => string };

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
  progress: CountsSoFar;
  content: CapturedContent;
  /** Whether the response began before there was an answer, so that a failure can no longer have a status. */
  responseBegan: boolean;
  /** Whether the current call has been sent to a provider, which may charge for it from then on. */
  dispatched: boolean;
  /** Adds a finished step to the trace. For a provider call, also adds its attempt to `attempts`. */
  addStep: (step: Pick<Step, "type" | "name" | "status">, startedAt: number, attempt?: Attempt) => void;
  /** Records the usage of a finished call when the run continues with another call. */
  finishCall: (use: CallUse) => void;
  /** Returns whether an earlier call of the run has finished and is charged. */
  hasCharged: () => boolean;
  /** Returns the total usage of the finished calls. */
  usedSoFar: () => TokenCounts;
  /**
   * Settles the run in the background and returns its `platform` metadata. Later calls only return the same metadata.
   */
  end: (end: RunEnd) => Platform;
};

/** The details that identify a run in telemetry. */
type RunAbout = Pick<EndedRun, "requestId" | "path" | "feature">;

/** Creates the state of a run that the database has begun. */
export function openRun(
  gateway: Gateway,
  {
    run,
    startedAt,
    asked,
    about,
    onEnd,
  }: { run: Run; startedAt: number; asked: Asked; about: RunAbout; onEnd?: () => void },
): OpenRun {
  const { openRuns, settlements, now } = gateway;
  const content = captureContent(gateway, run);
  const steps: Step[] = [];
  const attempts: Attempt[] = [];
  const traced: TracedStep[] = [];
  const progress: CountsSoFar = { input_tokens: 0, output_tokens: 0 };
  const finished: CallUse[] = [];
  const charges = new Map<Attempt, CallUse>();
  const release = openRuns.track(run, () => {
    const { route, ...usage } = progress;
    const calls: CallUse[] = [...finished, ...(route === undefined ? [] : [{ route, usage, basis: "guess" as const }])];
    const { input_tokens = 0, output_tokens = 0 } = totalCounts(calls);
    return { route, input_tokens, output_tokens, cost_usd: costOfCalls(run, calls).cost_usd };
  });
  let platform: Platform | undefined;
  function providerOf(last: CallUse | undefined) {
    const { provider: id = "" } = run.routes.find(({ position }) => position === last?.route) ?? run.routes[0] ?? {};
    return gateway.providers.get(id);
  }
  function billing(provider: Provider | undefined) {
    return { billing_name: provider?.billingName, billing_account: provider?.account };
  }
  return {
    run,
    steps,
    attempts,
    progress,
    content,
    responseBegan: false,
    dispatched: false,
    addStep(step, stepStartedAt, attempt) {
      const endedAt = now();
      steps.push({ step: steps.length + 1, ...step, latency_ms: Math.round(endedAt - stepStartedAt) });
      traced.push({ ...step, startedAt: stepStartedAt, endedAt, attempt });
      if (attempt) attempts.push(attempt);
    },
    finishCall(use) {
      finished.push(use);
      noteCharge(charges, use, attempts);
      this.dispatched = false;
      progress.input_tokens = 0;
      progress.output_tokens = 0;
    },
    hasCharged: () => finished.some(isCharged),
    usedSoFar: () => totalCounts(finished),
    end(end) {
      if (platform) return platform;
      release();
      onEnd?.();
      const latencyMs = Math.round(now() - startedAt);
      const calls = [...finished, ...(end.use ? [end.use] : [])];
      if (end.use) noteCharge(charges, end.use, attempts);
      const source = usageSource(calls, { ...end, attempts, charges });
      const cost = costOfCalls(run, calls);
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
        ...factsOf(run, calls, asked),
        ...billing(provider),
        first_byte_ms: end.firstByteMs,
        latency_ms: latencyMs,
        steps: [...steps],
        ...(attempts.length > 0 ? { attempts: reportedAttempts(attempts, charges) } : {}),
        key_unused: finished.length === 0 && (end.keyUnused ?? false),
      };
      const schemaValid = end.answer?.said && asked.keepsSchema?.(end.answer.said());
      const ignored = ignoredNames(asked, provider);
      const metadata = platformMetadata(run, { calls, cost, source, steps, latencyMs, schemaValid, ignored });
      platform = metadata;
      content.keepAnswer(
        () => end.answer?.text(metadata),
        () => settlements.add(outcome, { workspaceId: run.workspace_id, promptly: isNearTokenLimit(run) }),
      );
      gateway.telemetry.run?.({
        ...about,
        runId: run.run_id,
        workspaceId: run.workspace_id,
        model: run.model,
        keyName: run.key_name ?? undefined,
        routes: run.routes,
        route: outcome.route,
        streamed: asked.stream,
        outputLimit: asked.outputLimit,
        choices: asked.choices,
        steps: withUse(traced, charges),
        attempts,
        startedAt,
        endedAt: now(),
        firstByteMs: end.firstByteMs,
        status: end.status,
        httpStatus: end.httpStatus,
        errorCode: end.errorCode,
        usageSource: source,
        usage: totalCounts(calls),
        servedTier: outcome.served_tier,
        marks: outcome.marks,
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
function noteCharge(charges: Map<Attempt, CallUse>, use: CallUse, attempts: readonly Attempt[]): void {
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
  const asked = attempts.filter(({ failure }) => failure !== "skipped");
  return asked.slice(0, -1).some((attempt) => attempt.may_have_charged && !charges.has(attempt));
}

/** Returns how a run's token counts were determined. */
function usageSource(
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

const maxIgnored = 100;
const maxNameLength = 128;

/** Returns the names of the members and tools that the request's provider did not receive. */
export function ignoredNames({ ignored = [], others = {}, hints = [] }: Asked, provider?: Provider): string[] {
  const left = Object.keys(others).filter((name) => !provider?.kind.passes?.includes(name));
  const leftHints = hints.filter((name) => provider?.kind.leftOut.includes(name));
  return [...new Set([...ignored, ...left, ...leftHints])]
    .slice(0, maxIgnored)
    .map((name) => name.slice(0, maxNameLength));
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
    ...(end.schemaValid === undefined ? {} : { schema_valid: end.schemaValid }),
    ...(end.ignored.length === 0 ? {} : { ignored: end.ignored }),
    latency_ms: end.latencyMs,
  };
}
