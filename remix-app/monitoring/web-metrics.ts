import { Counter, Gauge, Histogram } from "prom-client";
import { createProcessRegistry, durationBuckets, type ProcessMetrics } from "#shared/metrics-text.ts";

/** What a request was for, from a closed list. Paths would be too many. */
export type RequestKind = "page" | "api" | "oauth" | "app" | "gateway" | "asset" | "not_found";

/** How an attempt to sign in ended: admitted and settled, or refused before anything was tried. */
export type AttemptResult =
  | "succeeded"
  | "failed"
  | "void"
  | "limited"
  | "blocked"
  | "suspicious"
  | "unchallenged"
  | "unavailable";

/** Counts what this process does for `GET /metrics`. */
export type WebMetrics = {
  /** @returns a function to call when the request has been answered */
  beginRequest: () => (request: { kind: RequestKind; status: number; durationMs: number }) => void;
  attempt: (attempt: { action: string; result: AttemptResult }) => void;
  task: (run: { task: string; hasFailed: boolean }) => void;
  read: () => Promise<ProcessMetrics>;
};

/**
 * Creates the metrics of this process. All labels have few values. No label is an account, a workspace, an address or a
 * text from a caller.
 */
export function createWebMetrics(): WebMetrics {
  const registry = createProcessRegistry();
  const registers = [registry];
  const requests = new Counter({
    name: "gatehouse_web_requests_total",
    help: "Answered requests, without health checks and scrapes.",
    labelNames: ["kind", "status"],
    registers,
  });
  const durations = new Histogram({
    name: "gatehouse_web_request_duration_seconds",
    help: "Time until the response began.",
    labelNames: ["kind"],
    buckets: durationBuckets,
    registers,
  });
  const openRequests = new Gauge({
    name: "gatehouse_web_open_requests",
    help: "Requests that wait for their response.",
    registers,
  });
  const attempts = new Counter({
    name: "gatehouse_web_attempts_total",
    help: "Attempts to sign in, to prove an identity or to have an email sent, by result.",
    labelNames: ["action", "result"],
    registers,
  });
  const tasks = new Counter({
    name: "gatehouse_web_tasks_total",
    help: "Runs of scheduled tasks in this process.",
    labelNames: ["task", "result"],
    registers,
  });
  return {
    beginRequest() {
      openRequests.inc();
      return ({ kind, status, durationMs }) => {
        openRequests.dec();
        requests.inc({ kind, status });
        durations.observe({ kind }, durationMs / 1_000);
      };
    },
    attempt: ({ action, result }) => attempts.inc({ action, result }),
    task: ({ task, hasFailed }) => tasks.inc({ task, result: hasFailed ? "failed" : "succeeded" }),
    read: () => registry.getMetricsAsJSON(),
  };
}
