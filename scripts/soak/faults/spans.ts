import type { Target } from "../journal.ts";

/** What a call may hang on. */
export type Part = "postgres" | "pgbouncer" | "functions" | "identity" | "gateway" | "web" | "provider";

/** A time in which a part was down or slow. */
export type Span = {
  kind: string;
  part: Part;
  from: number;
  /** When its health check answered again; null while it does not. */
  until: number | null;
  /** Its process was killed without a chance to finish. */
  killed: boolean;
};

/** The part that a service belongs to: `web-2` is one of the web servers. */
export const partOf = (service: string) => service.replace(/-\d+$/, "") as Part;

/** How long after a part's health has come back others may still find broken connections. */
export const recoveryMs = 5_000;

/** Only slow, by milliseconds and not by seconds: what answers late is no excuse for those who give up. */
export const isSlowness = ({ kind }: Span): boolean => kind === "slow disk" || kind === "network delay";

const needs: Record<Target, readonly Part[]> = {
  web: ["web", "gateway", "identity", "pgbouncer", "postgres"],
  // A satellite asks the platform; its own process is never touched.
  notes: ["web", "gateway", "identity", "pgbouncer", "postgres"],
  ai: ["gateway", "functions", "pgbouncer", "postgres"],
};

/** The spans that excuse a failure of a call: a part that it needs was down while it was under way, or had just come back. */
export function spansOver(
  call: { target: Target; startedAt: number; endedAt: number; status: number | null },
  spans: readonly Span[],
): Span[] {
  return spans.filter(({ part, from, until }) => {
    const overlaps = call.endedAt >= from && call.startedAt <= (until ?? Number.POSITIVE_INFINITY) + recoveryMs;
    if (!overlaps) return false;
    if (needs[call.target].includes(part)) return true;
    // Of a provider's outage the gateway tells by 502 and 504, and by streams that end; by nothing else.
    return (
      part === "provider" &&
      call.target === "ai" &&
      (call.status === null || call.status === 502 || call.status === 504)
    );
  });
}
