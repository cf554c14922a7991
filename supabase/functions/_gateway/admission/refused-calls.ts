import { isContended } from "../database/connections.ts";
import type { Caller, GatewayDatabase, RefusedCall, RefusedCount } from "../database/database.ts";
import type { GatewayError } from "../http/errors.ts";

/** Refused calls are sent once in this time. */
const intervalMs = 1_000;
const minuteMs = 60_000;
/** Maximum number of calls of a caller and minute that are sent in full. The others are only counted. */
const maxCalls = 20;
/** Maximum number of combinations of model and feature that are counted separately for a caller and minute. */
const maxCombinations = 20;
/** Maximum numbers of callers, and of calls in full, that wait together. */
const maxCallers = 1_000;
const maxWaitingCalls = 2_000;
/** The part of both for callers whose credential is unchecked. */
const uncheckedPart = 1 / 10;
/** Maximum size of what a call states, in characters. */
const maxTextLength = 256;
const maxDetailsLength = 2_048;
/** How often a final flush retries, and the delay between two attempts. */
const maxFlushes = 20;
const flushDelayMs = 50;

/** What is known of a call before its run begins. */
export type CallFacts = Pick<RefusedCall, "request_id" | "endpoint" | "feature"> & {
  caller: Caller;
  label?: string | undefined;
  model?: string;
  streamed?: boolean;
  /** `unchecked`: the caller's credential may be unknown. `open`: the call has a run, which records what follows. */
  state: "unchecked" | "checked" | "open";
};

/** The refused calls of a caller in one minute. `calls` and `counts` hold those that are not sent. */
type CallerMinute = {
  caller: Caller;
  minute: number;
  firstAt: number;
  callsInFull: number;
  calls: (Omit<RefusedCall, "age_ms"> & { refusedAt: number })[];
  counts: Map<string, RefusedCount>;
};

export type RefusedCalls = ReturnType<typeof createRefusedCalls>;

/**
 * Gathers refused calls by caller and minute, and sends them once a second, so that no answer waits for them and their
 * number costs nothing. Sends them again only if the database certainly did not record them.
 */
export function createRefusedCalls(options: {
  record: GatewayDatabase["recordRefusedCalls"];
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}) {
  const callers = new Map<string, CallerMinute>();
  let waitingCalls = 0;
  let cycle: Promise<void> | undefined;
  let endInterval = () => {};

  function find(caller: Caller, isChecked: boolean): CallerMinute | undefined {
    const minute = Math.floor(Date.now() / minuteMs);
    const key = `${minute} ${callerKey(caller)}`;
    const known = callers.get(key);
    if (known) return known;
    const limit = isChecked ? maxCallers : maxCallers * uncheckedPart;
    if (callers.size >= limit) forgetSent(minute);
    if (callers.size >= limit) return undefined;
    const opened: CallerMinute = { caller, minute, firstAt: 0, callsInFull: 0, calls: [], counts: new Map() };
    callers.set(key, opened);
    return opened;
  }

  /** Forgets callers with nothing to send, except those of the given minute that there is room for. */
  function forgetSent(minute: number): void {
    const isFull = callers.size >= maxCallers * uncheckedPart;
    for (const [key, one] of callers) if (one.counts.size === 0 && (isFull || one.minute < minute)) callers.delete(key);
  }

  async function sendUntilEmpty(): Promise<void> {
    do {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, intervalMs);
        endInterval = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      await send();
    } while (isWaiting());
    cycle = undefined;
  }

  const isWaiting = () => [...callers.values()].some(({ counts }) => counts.size > 0);

  async function send(): Promise<void> {
    const sent = [...callers.values()]
      .filter(({ counts }) => counts.size > 0)
      .map((one) => {
        const { calls, counts } = one;
        waitingCalls -= calls.length;
        one.calls = [];
        one.counts = new Map();
        return { one, calls, counts };
      });
    forgetSent(Math.floor(Date.now() / minuteMs));
    if (sent.length === 0) return;
    const now = performance.now();
    const batch = sent.map(({ one: { caller, firstAt }, calls, counts }) => ({
      credential: caller.credential,
      workspace: caller.workspace,
      age_ms: now - firstAt,
      calls: calls.map(({ refusedAt, ...call }) => ({ ...call, age_ms: now - refusedAt })),
      counts: [...counts.values()],
    }));
    const isRecorded = await options.record(batch).catch((error: unknown) => {
      if (isContended(error)) return false;
      options.report(error);
      return true;
    });
    if (isRecorded) return;
    for (const { one, calls, counts } of sent) {
      const key = `${one.minute} ${callerKey(one.caller)}`;
      // A caller without waiting calls may have been forgotten, and added again.
      const current = callers.get(key) ?? one;
      callers.set(key, current);
      waitingCalls += calls.length;
      current.calls.unshift(...calls);
      for (const [combination, count] of current.counts) counts.set(combination, add(counts.get(combination), count));
      current.counts = counts;
    }
  }

  return {
    /** Adds a refused call. Ignores failures of ours, and callers whose credential is unknown. */
    add({ caller, state, ...facts }: CallFacts, error: GatewayError): void {
      if (state === "open" || error.status >= 500 || error.code === "invalid_api_key") return;
      const isChecked = state === "checked";
      const one = find(caller, isChecked);
      if (!one) return;
      const { code, status, options: known } = error;
      const refusedAt = performance.now();
      const model = boundText(facts.model);
      if (one.counts.size === 0) one.firstAt = refusedAt;
      const maxWaiting = isChecked ? maxWaitingCalls : maxWaitingCalls * uncheckedPart;
      if (one.callsInFull < maxCalls && waitingCalls < maxWaiting) {
        one.callsInFull += 1;
        waitingCalls += 1;
        const details = boundDetails(
          known.details ?? (known.message ? { message: boundText(known.message) } : undefined),
        );
        one.calls.push({ ...facts, model, status, code, param: boundText(known.param), details, refusedAt });
      }
      const combination = { model, feature: facts.feature, code };
      const key = JSON.stringify(combination);
      const isSeparate = one.counts.has(key) || one.counts.size < maxCombinations;
      const counted = isSeparate ? combination : { code };
      const countedKey = isSeparate ? key : code;
      one.counts.set(countedKey, add(one.counts.get(countedKey), { ...counted, count: 1 }));
      if (cycle) return;
      cycle = sendUntilEmpty();
      options.waitUntil(cycle);
    },
    /** Sends all waiting calls, before the process ends. */
    async flush(): Promise<void> {
      for (let flushes = 0; flushes < maxFlushes && isWaiting(); flushes++) {
        if (flushes > 0) await new Promise((resolve) => setTimeout(resolve, flushDelayMs));
        await send();
      }
      endInterval();
    },
  };
}

const add = (known: RefusedCount | undefined, more: RefusedCount): RefusedCount => ({
  ...more,
  count: (known?.count ?? 0) + more.count,
});

const callerKey = ({ credential, workspace = "" }: Caller) =>
  `${"hash" in credential ? credential.hash : credential.claims.session_id} ${workspace}`;

/** Escapes of characters that Postgres can't store: NUL, and halves of a surrogate pair. */
const unstorable = /\\u(?:0000|d[89a-f])/i;

/** Returns a text of a caller, shortened, if Postgres can store it. */
function boundText(text: string | undefined): string | undefined {
  const start = text?.slice(0, maxTextLength);
  return start === undefined || unstorable.test(JSON.stringify(start)) ? undefined : start;
}

function boundDetails(details: object | undefined): object | undefined {
  const text = JSON.stringify(details ?? {});
  return text === "{}" || text.length > maxDetailsLength || unstorable.test(text) ? undefined : details;
}
