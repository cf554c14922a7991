import type { Target } from "../journal.ts";

/** A part that a call may depend on. */
export type Part = "postgres" | "pgbouncer" | "functions" | "identity" | "gateway" | "web" | "provider";

/** A period in which a part was down or slow. */
export type Span = {
  kind: string;
  part: Part;
  from: number;
  /** When the part's health check answered again; null until then. */
  until: number | null;
  /** Whether the process was killed without a chance to finish. */
  killed: boolean;
};

/** Returns the part that a service belongs to. For example, `web-2` belongs to the part `web`. */
export const partOf = (service: string) => service.replace(/-\d+$/, "") as Part;

/** How long callers may still find broken connections after a part is healthy again. */
export const recoveryMs = 5_000;

/**
 * Returns whether a fault only slows a part down, by milliseconds rather than seconds. Such a fault doesn't excuse a
 * timeout.
 */
export const isSlowness = ({ kind }: Span): boolean => kind === "slow disk" || kind === "network delay";

const needs: Record<Target, readonly Part[]> = {
  web: ["web", "gateway", "identity", "pgbouncer", "postgres"],
  // A satellite depends on the platform. Faults never affect the satellite's own process.
  notes: ["web", "gateway", "identity", "pgbouncer", "postgres"],
  ai: ["gateway", "functions", "pgbouncer", "postgres"],
};

/**
 * Returns the spans that excuse a failed call. Such a span affects a part that the call needs, and overlaps the call or
 * ended shortly before the call.
 */
export function spansOver(
  call: { target: Target; startedAt: number; endedAt: number; status: number | null },
  spans: readonly Span[],
): Span[] {
  return spans.filter(({ part, from, until }) => {
    const overlaps = call.endedAt >= from && call.startedAt <= (until ?? Number.POSITIVE_INFINITY) + recoveryMs;
    if (!overlaps) return false;
    if (needs[call.target].includes(part)) return true;
    // The gateway reports a provider outage only with 502, 504 or a stream that ends early.
    return (
      part === "provider" &&
      call.target === "ai" &&
      (call.status === null || call.status === 502 || call.status === 504)
    );
  });
}
