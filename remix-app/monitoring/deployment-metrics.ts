import type { AppLoadContext } from "@remix-run/node";
import { Counter, Gauge, Registry } from "prom-client";
import { z } from "zod";
import { formatRegistry } from "#shared/metrics-text.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";

/** How long an answer of the database is used again, so that frequent scrapes cost it nothing. */
const reuseMs = 5_000;

/** The counters of `ai.totals`, with the name of their label. */
const counters = {
  runs: { name: "gatehouse_runs_total", label: "provider", help: "Calls of models that began." },
  failed_runs: { name: "gatehouse_failed_runs_total", label: "provider", help: "Calls of models that failed." },
  input_tokens: { name: "gatehouse_input_tokens_total", label: "provider", help: "Input tokens of calls." },
  output_tokens: { name: "gatehouse_output_tokens_total", label: "provider", help: "Output tokens of calls." },
  cost_usd: { name: "gatehouse_cost_usd_total", label: "provider", help: "Cost of calls, in US dollars." },
  failed_attempts: {
    name: "gatehouse_failed_attempts_total",
    label: "provider",
    help: "Requests that a provider failed, also if another route answered the call.",
  },
  refused_calls: {
    name: "gatehouse_refused_calls_total",
    label: "code",
    help: "Calls of models that were refused before a run began.",
  },
  sign_ins: { name: "gatehouse_sign_ins_total", label: "method", help: "Sign-ins." },
} as const;

/** The gauges of `private.measure_deployment()`. */
const gauges = {
  openRuns: ["gatehouse_open_runs", "Runs in progress."],
  longRunningRuns: ["gatehouse_long_running_runs", "Runs that have been in progress for more than 45 seconds."],
  oldestOpenRunSeconds: ["gatehouse_oldest_open_run_age_seconds", "Age of the oldest run that is not settled."],
  reservedUsd: ["gatehouse_reserved_usd", "Maximum cost of the runs in progress, in US dollars."],
  reservedCredits: ["gatehouse_reserved_credits", "Credits that runs in progress hold of balances."],
  sweepAgeSeconds: ["gatehouse_sweep_age_seconds", "How far the sweep of abandoned runs is behind."],
  usageAgeSeconds: ["gatehouse_usage_age_seconds", "How far the sums of runs are behind."],
  blockedAddresses: ["gatehouse_blocked_addresses", "Addresses that are blocked after too many failures."],
  mailsWaiting: ["gatehouse_mails_waiting", "Emails that wait for an attempt."],
  mailsFailed: ["gatehouse_mails_failed", "Emails of the last seven days that were given up."],
  mailsDueSeconds: ["gatehouse_mails_due_age_seconds", "How long the email that is due the longest has been due."],
} as const;

const amount = z.coerce.number().nonnegative();
const age = z.number().nullable();
const measured = z.object({
  totals: z.array(
    z.object({
      /** One of `counters`, or one that a later release added to the database. */
      figure: z.string(),
      label: z.string(),
      total: amount,
    }),
  ),
  openRuns: amount,
  longRunningRuns: amount,
  oldestOpenRunSeconds: age,
  reservedUsd: amount,
  reservedCredits: amount,
  sweepAgeSeconds: age,
  usageAgeSeconds: age,
  blockedAddresses: amount,
  mailsWaiting: amount,
  mailsFailed: amount,
  mailsDueSeconds: age,
});

export type DeploymentMetrics = { respond: (requestId: string) => Promise<Response> };

/** Creates the metrics of the whole deployment. Each process asks the database for them at most once in five seconds. */
export function createDeploymentMetrics(env: AppLoadContext["env"], now = () => performance.now()): DeploymentMetrics {
  let measuredAt = Number.NEGATIVE_INFINITY;
  let answer: Promise<z.infer<typeof measured>>;
  return {
    /** @throws Response 503 if the database does not answer */
    async respond(requestId) {
      if (now() - measuredAt >= reuseMs) {
        measuredAt = now();
        answer = callFunction({ env, requestId }, { name: "private.measure_deployment", schema: measured });
      }
      // A failure is a response. Each caller needs its own.
      const figures = await answer.catch(() => problem("UNAVAILABLE", { requestId }));
      if (figures instanceof Response) throw figures;
      return formatRegistry(registryOf(figures));
    },
  };
}

function registryOf({ totals, ...values }: z.infer<typeof measured>): Registry {
  const registry = new Registry();
  const registers = [registry];
  for (const [figure, { name, label, help }] of Object.entries(counters)) {
    const counter = new Counter({ name, help, labelNames: [label], registers });
    for (const one of totals) if (one.figure === figure) counter.inc({ [label]: one.label }, one.total);
  }
  for (const [key, [name, help]] of Object.entries(gauges)) {
    const value = values[key as keyof typeof gauges];
    // A figure that does not exist yet has no value.
    if (value !== null) new Gauge({ name, help, registers }).set(Math.max(0, value));
  }
  return registry;
}

/** The names of all metrics of the deployment. */
export const deploymentMetricNames: readonly string[] = [
  ...Object.values(counters).map(({ name }) => name),
  ...Object.values(gauges).map(([name]) => name),
];
