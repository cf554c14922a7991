import { z } from "zod";

/** What `ai.read_envelopes` returns for one envelope. */
export const envelopeSnapshot = z.object({
  id: z.string(),
  state: z.enum(["open", "ended", "expired"]),
  limit_usd: z.number(),
  spent_usd: z.number(),
  reserved_usd: z.number(),
  max_calls: z.number().nullish(),
  calls: z.number(),
  ends_at: z.string(),
});
export type EnvelopeSnapshot = z.infer<typeof envelopeSnapshot>;

type Listener = (snapshot: EnvelopeSnapshot) => void;

/** How often envelopes are read while calls wait for them or run in them. */
const intervalMs = 1_000;

export type EnvelopeWatch = ReturnType<typeof createEnvelopeWatch>;

/** Reads the envelopes of this process's waiting and running calls, all in one statement a second. */
export function createEnvelopeWatch(options: {
  read: (ids: readonly string[]) => Promise<EnvelopeSnapshot[]>;
  waitUntil: (work: Promise<unknown>) => void;
}) {
  const listeners = new Map<string, Set<Listener>>();
  let timer: ReturnType<typeof setInterval> | undefined;
  let isReading = false;

  function tick(): void {
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    } else if (!isReading) {
      isReading = true;
      options.waitUntil(readAll());
    }
  }

  async function readAll(): Promise<void> {
    try {
      for (const snapshot of await options.read([...listeners.keys()])) {
        // A listener may end itself or others.
        for (const listener of [...(listeners.get(snapshot.id) ?? [])]) listener(snapshot);
      }
    } catch {
      // The next tick reads them again.
    } finally {
      isReading = false;
    }
  }

  return {
    /** Calls `listener` with what is read of an envelope, about once a second, until the returned function is called. */
    watch(id: string, listener: Listener): () => void {
      const known = listeners.get(id);
      if (known) known.add(listener);
      else listeners.set(id, new Set([listener]));
      // The timer ends at the next tick without listeners, because sporadic calls would start and stop one each.
      timer ??= setInterval(tick, intervalMs);
      return () => {
        const all = listeners.get(id);
        all?.delete(listener);
        if (all?.size === 0) listeners.delete(id);
      };
    },
  };
}

/**
 * Returns whether an envelope is as a reader knows it. Amounts that the reader may not see are left out of `known`, and
 * count from the first reading on.
 */
export function hasSameRoom(known: Partial<EnvelopeSnapshot>, now: EnvelopeSnapshot): boolean {
  const names = ["limit_usd", "spent_usd", "reserved_usd"] as const;
  return (
    known.state === now.state &&
    known.ends_at === now.ends_at &&
    known.calls === now.calls &&
    (known.max_calls ?? null) === (now.max_calls ?? null) &&
    names.every((name) => known[name] === undefined || known[name] === now[name])
  );
}

/** Returns the dollars that an envelope has left for calls. */
export function getRoomUsd({ limit_usd, spent_usd, reserved_usd }: EnvelopeSnapshot): number {
  return limit_usd - spent_usd - reserved_usd;
}

/** Returns the number of calls that an envelope has left. */
export function getRoomCalls({ max_calls, calls }: EnvelopeSnapshot): number {
  return max_calls == null ? Number.POSITIVE_INFINITY : max_calls - calls;
}
