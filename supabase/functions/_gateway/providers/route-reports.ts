import type { AttemptFailure } from "../../_shared/attempt.ts";
import type { GatewayDatabase, RouteReport } from "../database/database.ts";

/** How soon a change of a route's health is sent. */
const changeDelayMs = 1_000;
/** How often further answers of a working route are sent, and failed reports are sent again. */
const answerDelayMs = 10_000;
/** Maximum number of routes. More are not reported, except in place of those with nothing to send. */
const maxRoutes = 1_000;

/** What happened to a route: an answer, or a failure that counts against it and the cooldown that it began. */
export type RouteEvent = "answered" | { failure: AttemptFailure; status?: number | undefined; cooldownMs: number };

/** The health of a route in this process. The times are on the process's clock. */
type RouteHealth = {
  isReported: boolean;
  answeredAt?: number;
  failingSince?: number | undefined;
  failedAt?: number;
  failure?: AttemptFailure;
  status?: number | undefined;
  /** The failures since the last answer that were not sent. */
  failures: number;
  /** The end of the last cooldown that no answer has ended. */
  skippedUntil?: number | undefined;
  isCooldownSent: boolean;
  /** The end of the cooldown that the last answer ended, if it was sent. */
  endedUntil?: number | undefined;
};

export type RouteReports = ReturnType<typeof createRouteReports>;

/**
 * Reports the health of this process's routes in the background, in batches, so that no call waits for a report or fails
 * with it. A failed report is sent again with what has happened since. It may have been recorded, so its failures are not
 * counted again.
 */
export function createRouteReports(options: {
  record: GatewayDatabase["reportRoutes"];
  now: () => number;
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}) {
  const { now } = options;
  const routes = new Map<string, RouteHealth>();
  let dueAt = Number.POSITIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let sending = Promise.resolve();
  let isFailing = false;

  function find(key: string): RouteHealth | undefined {
    const known = routes.get(key);
    if (known) return known;
    if (routes.size >= maxRoutes) {
      for (const [other, { isReported }] of routes) if (isReported) routes.delete(other);
      if (routes.size >= maxRoutes) return undefined;
    }
    const added: RouteHealth = { isReported: true, failures: 0, isCooldownSent: false };
    routes.set(key, added);
    return added;
  }

  function sendWithin(delayMs: number): void {
    const at = now() + delayMs;
    if (at >= dueAt) return;
    clearTimeout(timer);
    dueAt = at;
    timer = setTimeout(() => options.waitUntil(sendNext()), delayMs);
  }

  /** Sends after the batch in progress, so that reports use one connection at most. */
  function sendNext(): Promise<void> {
    clearTimeout(timer);
    dueAt = Number.POSITIVE_INFINITY;
    sending = sending.then(send);
    return sending;
  }

  async function send(): Promise<void> {
    const sent = [...routes].filter(([, { isReported }]) => !isReported);
    if (sent.length === 0) return;
    const reports = sent.map(([key, health]) => describe(key, { health, at: now() }));
    for (const [, health] of sent) Object.assign(health, { isReported: true, failures: 0, isCooldownSent: true });
    try {
      await options.record(reports);
      isFailing = false;
    } catch (error) {
      if (!isFailing) options.report(error);
      isFailing = true;
      for (const [key, health] of sent) {
        health.isReported = false;
        routes.set(key, health);
      }
      sendWithin(answerDelayMs);
    }
  }

  return {
    /** Notes what happened to a route. @param key its provider, model and endpoint, separated by spaces */
    note(key: string, event: RouteEvent): void {
      const health = find(key);
      if (!health) return;
      if (event === "answered") {
        const isChange = health.failingSince !== undefined;
        if (health.skippedUntil !== undefined) {
          health.endedUntil = health.isCooldownSent ? health.skippedUntil : undefined;
          health.skippedUntil = undefined;
        }
        Object.assign(health, { answeredAt: now(), failingSince: undefined, failures: 0 });
        if (!health.isReported && !isChange) return;
        health.isReported = false;
        sendWithin(isChange ? changeDelayMs : answerDelayMs);
        return;
      }
      const { failure, status, cooldownMs } = event;
      const failedAt = now();
      Object.assign(health, { isReported: false, failedAt, failure, status, failures: health.failures + 1 });
      health.failingSince ??= failedAt;
      if (cooldownMs > 0) Object.assign(health, { skippedUntil: failedAt + cooldownMs, isCooldownSent: false });
      sendWithin(changeDelayMs);
    },
    /** Sends all waiting reports, before the process ends. */
    async flush(): Promise<void> {
      await sendNext();
      clearTimeout(timer);
    },
  };
}

function describe(key: string, { health, at }: { health: RouteHealth; at: number }): RouteReport {
  const { answeredAt, failingSince, failedAt, failures, failure, status } = health;
  const until = failingSince === undefined ? health.endedUntil : health.skippedUntil;
  const age = (time: number | undefined) => (time === undefined ? undefined : at - time);
  const [modelStart, modelEnd] = [key.indexOf(" "), key.lastIndexOf(" ")];
  return {
    provider: key.slice(0, modelStart),
    model: key.slice(modelStart + 1, modelEnd),
    endpoint: key.slice(modelEnd + 1),
    answered_ms_ago: age(answeredAt),
    failing_ms_ago: age(failingSince),
    failed_ms_ago: age(failedAt),
    failures,
    failure,
    status,
    cooldown_ms: until !== undefined && until > at ? until - at : undefined,
  };
}
