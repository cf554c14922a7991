import { billUsd } from "./messages-bill.ts";
import type { Usage } from "./usage.ts";

/** What really happened in a call, to compare with what was made of it. */
export type Truth = {
  /** Counts up from 1, for as long as the provider runs. */
  call: number;
  /** `x-request-id` of the call, where it had one. */
  requestId: string | null;
  path: string;
  model: string;
  stream: boolean;
  startedAt: string;
  endedAt: string | null;
  /** HTTP status that was sent; null where the call ended without one. */
  status: number | null;
  /** Used so far: at the end, or when the client left or the answer was cut. */
  usage: Usage;
  /** What a call of the Messages API costs at the provider, in USD; null where nothing is billed. */
  billedUsd: string | null;
  /** Whether the answer stated its usage. */
  usageReported: boolean;
  /** The client left before the end. */
  aborted: boolean;
};

/** Older entries make room for newer ones. */
const capacity = 10_000;

export type TruthLog = {
  begin: (call: Pick<Truth, "requestId" | "path" | "model" | "stream">) => Truth;
  /** Those of a request, and those after a call, where either is named. */
  list: (of?: { requestId?: string; after?: number }) => Truth[];
  clear: () => void;
};

/** The last calls, oldest first. An entry is there from the call's first moment and is completed as it goes on. */
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
