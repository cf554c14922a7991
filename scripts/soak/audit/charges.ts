import { formatDecimal, parseDecimal } from "../../../supabase/functions/_shared/decimal.ts";
import { usageCostUsd, usdToCredits } from "../../../supabase/functions/_shared/money.ts";
import { isSlowness, type Span } from "../faults/spans.ts";
import type { Ask, Attempt } from "../traffic/ai-caller.ts";
import type { ProviderCall } from "../truth.ts";
import type { BookFact, BudgetFact, RunFact, Totals } from "./facts.ts";
import { type Verdict, verdict } from "./verdict.ts";

export type ChargeFacts = {
  runs: readonly RunFact[];
  calls: readonly ProviderCall[];
  asks: readonly Ask[];
  spans: readonly Span[];
};

/** How long the gateway waits for confirmation that a run is open. */
const openingMs = 1_500;
const same = (one: string, other: string) => digits(one) === digits(other);
const digits = (amount: string) => formatDecimal(parseDecimal(amount));
const isZero = (amount: string) => parseDecimal(amount).units === 0n;
const usedAnything = ({ usage }: ProviderCall) => usage.input + usage.output > 0;
const cameWhole = ({ status, aborted, usageReported, endedAt }: ProviderCall) =>
  status === 200 && !aborted && usageReported && endedAt !== null;

/**
 * Returns whether the functions were killed while a run was open, so that its outcome was lost and the sweeper closed
 * it.
 */
function diedWithFunctions(run: RunFact, spans: readonly Span[]): boolean {
  return (
    run.swept &&
    spans.some(
      ({ part, killed, from }) =>
        part === "functions" && killed && from >= run.createdAt && from <= (run.settledAt ?? Number.POSITIVE_INFINITY),
    )
  );
}

/** Returns whether killed functions could have requested a run that Postgres opened only after they had ended. */
function askedByKilledFunctions({ createdAt }: RunFact, spans: readonly Span[]): boolean {
  return spans.some(
    ({ part, killed, from, until }) =>
      part === "functions" &&
      killed &&
      createdAt >= from &&
      createdAt <= Math.min(until ?? Number.POSITIVE_INFINITY, from + openingMs),
  );
}

/**
 * Returns whether Postgres was killed or restarting close to the time when a run was opened. In that case, the gateway
 * may not have received the confirmation.
 */
function openedAsPostgresEnded({ createdAt }: RunFact, spans: readonly Span[]): boolean {
  return spans.some(
    (span) =>
      span.part === "postgres" &&
      !isSlowness(span) &&
      createdAt >= span.from - openingMs &&
      createdAt <= (span.until ?? Number.POSITIVE_INFINITY) + openingMs,
  );
}

/** Checks that all usage was charged, only usage was charged, and nothing was charged twice. */
export function judgeCharges({ calls: seen, ...others }: ChargeFacts): Verdict[] {
  // Providers receive the run's id. Releases up to 0.1.0 sent the client's request id.
  const requestOf = new Map(others.runs.map(({ id, requestId }) => [id, requestId]));
  const calls = seen.map((call) => ({ ...call, requestId: requestOf.get(call.requestId ?? "") ?? call.requestId }));
  const facts: ChargeFacts = { ...others, calls };
  return [judgeTruth(facts), judgeLost(facts), judgeDouble(facts), judgeTold(facts), judgeLedger(facts)];
}

/**
 * Checks that a run with `usageSource` "provider" has the provider's token counts and the cost that follows from them.
 */
function judgeTruth({ runs, calls }: ChargeFacts): Verdict {
  const failures: string[] = [];
  const of = Map.groupBy(calls, ({ requestId }) => requestId ?? "");
  const metered = runs.filter(({ usageSource }) => usageSource === "provider");
  for (const run of metered) {
    const used = of.get(run.requestId) ?? [];
    const sum = (name: keyof ProviderCall["usage"]) => used.reduce((total, { usage }) => total + usage[name], 0);
    const said = [run.inputTokens, run.cachedInputTokens, run.outputTokens, run.reasoningTokens];
    const truth = [sum("input"), sum("cachedInput"), sum("output"), sum("reasoning")];
    if (String(said) !== String(truth)) failures.push(`run ${run.id} counts ${said}, its provider ${truth}`);
    const cost = usageCostUsd(
      { prices: run.prices },
      {
        input_tokens: truth[0] ?? 0,
        cached_input_tokens: truth[1] ?? 0,
        output_tokens: truth[2] ?? 0,
      },
    );
    if (!same(run.costUsd, formatDecimal(cost))) {
      failures.push(`run ${run.id} cost ${run.costUsd}, its usage ${formatDecimal(cost)}`);
    }
    const credits = run.exempt ? "0" : formatDecimal(usdToCredits(parseDecimal(run.costUsd), run.creditsPerUsd));
    if (!same(run.billedCredits, credits)) failures.push(`run ${run.id} bills ${run.billedCredits}, not ${credits}`);
  }
  return verdict("charges are the provider's truth", {
    figures: `${metered.length} runs, ${calls.length} provider calls`,
    failures,
  });
}

/**
 * Checks that each provider call belongs to one run and was charged, unless the functions were killed during the call.
 */
function judgeLost({ runs, calls, spans, asks }: ChargeFacts): Verdict {
  const failures: string[] = [];
  const byRequest = Map.groupBy(runs, ({ requestId }) => requestId);
  const attempts = attemptsOf(asks);
  let unmetered = 0;
  let unheard = 0;
  const called = new Set(calls.map(({ requestId }) => requestId));
  for (const run of runs.filter((one) => one.swept && !called.has(one.requestId) && !diedWithFunctions(one, spans))) {
    if (openedAsPostgresEnded(run, spans) || askedByKilledFunctions(run, spans)) unheard += 1;
    else failures.push(`run ${run.id} was left open without a provider call, and its functions were never killed`);
  }
  for (const call of calls) {
    const [run, ...more] = byRequest.get(call.requestId ?? "") ?? [];
    if (!run || more.length > 0) {
      failures.push(`provider call ${call.call} (request ${call.requestId}) is in ${run ? more.length + 1 : 0} runs`);
      continue;
    }
    if (!usedAnything(call)) continue;
    if (diedWithFunctions(run, spans)) unmetered += 1;
    else if (run.swept) failures.push(`run ${run.id} was left open, and its functions were never killed`);
    else if (cameWhole(call) && run.usageSource !== "provider" && !wasLeft(run, attempts.get(run.requestId))) {
      failures.push(
        `run ${run.id} (${run.status}, ${run.usageSource}) has lost what provider call ${call.call} reported`,
      );
    } else if (isZero(run.costUsd) && (cameWhole(call) || run.status !== "failed")) {
      failures.push(
        `run ${run.id} (${run.status}, ${run.usageSource}) cost nothing, and provider call ${call.call} was used`,
      );
    }
  }
  const figures = `${calls.length} provider calls; ${unmetered} of runs that died with killed functions, closed by the sweeper; ${unheard} opened as Postgres or the functions ended`;
  return verdict("no lost charge", { figures, failures });
}

/**
 * Returns whether the client may have left before the end of the run. The charge of such a run may be an estimate, or
 * may omit a later provider call of a tool loop.
 */
function wasLeft(run: RunFact, attempt: Attempt | undefined): boolean {
  return run.status !== "succeeded" && (attempt === undefined || attempt.left || attempt.told === null);
}

function attemptsOf(asks: readonly Ask[]): Map<string, Attempt> {
  return new Map(asks.flatMap(({ attempts }) => attempts.map((attempt) => [attempt.requestId, attempt] as const)));
}

/** Checks that, for each idempotency key, at most one attempt used the provider and at most one was charged. */
function judgeDouble({ runs, calls, asks }: ChargeFacts): Verdict {
  const failures: string[] = [];
  const used = new Set(calls.filter(usedAnything).map(({ requestId }) => requestId));
  const charged = new Map(runs.filter(({ costUsd }) => !isZero(costUsd)).map((run) => [run.requestId, run]));
  let keys = 0;
  let retried = 0;
  for (const { idempotencyKey, attempts } of asks) {
    if (idempotencyKey === null) continue;
    keys += 1;
    if (attempts.length > 1) retried += 1;
    const worked = attempts.filter(({ requestId }) => used.has(requestId));
    if (worked.length > 1) {
      failures.push(
        `key ${idempotencyKey} made the provider work ${worked.length} times: ${worked.map(({ requestId }) => requestId).join(", ")}`,
      );
    }
    const paid = attempts.flatMap(({ requestId }) => charged.get(requestId) ?? []);
    if (paid.length > 1) failures.push(`key ${idempotencyKey} was charged in ${paid.map(({ id }) => id).join(", ")}`);
  }
  return verdict("no double charge", { figures: `${keys} idempotency keys, ${retried} tried again`, failures });
}

/** Checks that each answer reported what its run was charged. */
function judgeTold({ runs, asks, spans }: ChargeFacts): Verdict {
  const failures: string[] = [];
  const byId = new Map(runs.map((run) => [run.id, run]));
  let told = 0;
  for (const { attempts } of asks) {
    for (const { told: said, requestId } of attempts) {
      if (!said) continue;
      told += 1;
      const run = byId.get(said.runId);
      if (!run) failures.push(`the answer to ${requestId} names run ${said.runId}, which does not exist`);
      else if (diedWithFunctions(run, spans)) continue;
      else if (!same(run.billedCredits, said.billedCredits)) {
        failures.push(`run ${run.id} bills ${run.billedCredits}, but its answer states ${said.billedCredits}`);
      } else if (said.costUsd !== null && !same(run.costUsd, said.costUsd)) {
        failures.push(`run ${run.id} cost ${run.costUsd}, but its answer states ${said.costUsd}`);
      }
    }
  }
  return verdict("answers tell what was charged", { figures: `${told} answers`, failures });
}

/**
 * Checks that the ledger charged each run its billed credits without extra entries, and that no estimated cost exceeds
 * the run's reservation.
 */
function judgeLedger({ runs }: ChargeFacts): Verdict {
  const failures: string[] = [];
  for (const run of runs) {
    if (!same(run.charged, run.billedCredits)) {
      failures.push(`run ${run.id} bills ${run.billedCredits}, the ledger took ${run.charged}`);
    }
    if (run.entries > (run.swept ? 2 : 1)) failures.push(`run ${run.id} has ${run.entries} entries in the ledger`);
    const guessed = run.usageSource === "estimated_partial";
    if (guessed && Number(run.costUsd) > Number(run.reservedUsd)) {
      failures.push(`run ${run.id} was guessed at ${run.costUsd}, beyond the ${run.reservedUsd} that were reserved`);
    }
  }
  return verdict("ledger is runs", { figures: `${runs.length} runs`, failures });
}

/** Checks that balance, ledger and runs of each workspace agree, and that nothing is still open or reserved. */
export function judgeBooks(books: readonly BookFact[]): Verdict[] {
  const stuck = books.flatMap(({ tenant, openRuns, reserved }) => [
    ...(openRuns > 0 ? [`${openRuns} runs of ${tenant} are open: select * from ai.runs where status = 'running'`] : []),
    ...(isZero(reserved) ? [] : [`${reserved} credits of ${tenant} are reserved`]),
  ]);
  const apart = books.flatMap(({ tenant, balance, ledger, billed, granted }) => {
    const spent = digits(String(subtract(granted, balance)));
    return [
      ...(same(balance, ledger) ? [] : [`${tenant}: the balance is ${balance}, its ledger ${ledger}`]),
      ...(same(spent, billed) ? [] : [`${tenant}: ${spent} credits are gone, its runs bill ${billed}`]),
    ];
  });
  const figures = books.map(({ tenant, billed }) => `${tenant} ${digits(billed)}`).join(", ");
  return [
    verdict("no stuck run or reservation", { figures: `${books.length} workspaces`, failures: stuck }),
    verdict("balance is ledger is runs", { figures: `credits billed: ${figures}`, failures: apart }),
  ];
}

/** Checks that budgets and envelopes count exactly their runs, reserve nothing and were not exceeded. */
export function judgeBudgets(budgets: readonly BudgetFact[]): Verdict {
  const failures = budgets.flatMap(({ name, calls, runs, maxCalls, ...usd }) => {
    const left = parseDecimal(String(subtract(usd.limitUsd, subtract(usd.spentUsd, usd.overrunUsd))));
    return [
      ...(same(usd.spentUsd, usd.costUsd) ? [] : [`${name} counts USD ${usd.spentUsd}, its runs cost ${usd.costUsd}`]),
      ...(isZero(usd.reservedUsd) ? [] : [`${name} still reserves USD ${usd.reservedUsd}`]),
      ...(left.units < 0n
        ? [`${name} has spent USD ${usd.spentUsd} of ${usd.limitUsd}, overruns ${usd.overrunUsd}`]
        : []),
      ...(name.startsWith("envelope") && calls !== runs
        ? [`${name} counts ${calls} calls, and holds ${runs} runs`]
        : []),
      ...(maxCalls !== null && calls > maxCalls ? [`${name} admitted ${calls} calls of ${maxCalls}`] : []),
    ];
  });
  const full = budgets.filter(({ calls, maxCalls }) => calls === maxCalls).length;
  return verdict("budgets are their runs", {
    figures: `${budgets.length} budgets, ${full} without calls left`,
    failures,
  });
}

function subtract(one: string, other: string): string {
  const [a, b] = [parseDecimal(one), parseDecimal(other)];
  const scale = Math.max(a.scale, b.scale);
  const at = (value: typeof a) => value.units * 10n ** BigInt(scale - value.scale);
  return formatDecimal({ units: at(a) - at(b), scale });
}

/** Checks that each report has exactly the totals of its runs in the database. */
export function judgeReports(reports: readonly { where: string; said: Totals; runs: Totals }[]): Verdict {
  const failures = reports.flatMap(({ where, said, runs }) => [
    ...(said.requests === runs.requests
      ? []
      : [`${where} counts ${said.requests} requests, the runs ${runs.requests}`]),
    ...(same(said.costUsd, runs.costUsd) ? [] : [`${where} says USD ${said.costUsd}, the runs ${runs.costUsd}`]),
    ...(same(said.billedCredits, runs.billedCredits)
      ? []
      : [`${where} says ${said.billedCredits} credits, the runs ${runs.billedCredits}`]),
  ]);
  const figures = reports.map(({ where, said }) => `${where} ${said.requests}`).join(", ");
  return verdict("reports are the runs", { figures, failures });
}
