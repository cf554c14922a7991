import { billUsd } from "./messages-bill.ts";
import type { Usage } from "./usage.ts";

/** A record of what actually happened in a call, for comparison with the gateway's records. */
export type Truth = {
  /** Counts up from 1 while the provider runs. */
  call: number;
  /** The call's `x-request-id`, if it had one. */
  requestId: string | null;
  path: string;
  model: string;
  stream: boolean;
  startedAt: string;
  endedAt: string | null;
  /** The HTTP status that was sent; null if the call ended without one. */
  status: number | null;
  /** The usage so far. Final once the response has ended or was cut, or the client has disconnected. */
  usage: Usage;
  /** What a call of the Messages API costs at the provider, in USD; null if nothing is billed. */
  billedUsd: string | null;
  usageReported: boolean;
  /** Whether the client disconnected before the end. */
  aborted: boolean;
};

/** Maximum number of entries. Older entries are dropped. */
const capacity = 10_000;

export type TruthLog = {
  begin: (call: Pick<Truth, "requestId" | "path" | "model" | "stream">) => Truth;
  /**
   * Lists entries. `requestId` selects the entries of one request. `after` selects the entries with a higher call
   * number.
   */
  list: (of?: { requestId?: string; after?: number }) => Truth[];
  clear: () => void;
};

/** Keeps the last calls, oldest first. An entry is added when the call starts and is updated as it continues. */
export function createTruthLog(): TruthLog {
  let entries: Truth[] = [];
  let calls = 0;
  return {
    begin(call) {
      calls += 1;
      const entry: Truth = {
        call: calls,
        ...call,
        startedAt: new Date().toISOString(),
        endedAt: null,
        status: null,
        usage: { input: 0, cachedInput: 0, output: 0, reasoning: 0 },
        get billedUsd() {
          return this.usage.billed ? billUsd(this.usage.billed) : null;
        },
        usageReported: false,
        aborted: false,
      };
      entries.push(entry);
      if (entries.length > capacity) entries = entries.slice(-capacity / 2);
      return entry;
    },
    list: ({ requestId, after = 0 } = {}) =>
      entries.filter((entry) => entry.call > after && (requestId === undefined || entry.requestId === requestId)),
    clear() {
      entries = [];
    },
  };
}
