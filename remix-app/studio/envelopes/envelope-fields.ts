import { formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { readUsdAmount } from "#shared/usd-amount.ts";
import type { Envelope } from "./envelope-schema.ts";

/** Formats a time for a `datetime-local` field in UTC. */
export function toUtcField(at: string | Date): string {
  return new Date(at).toISOString().slice(0, 16);
}

/** What a button proposes: the text on it, and the field that it sends. */
export interface Proposal {
  name: "limitUsd" | "calls" | "endsAt";
  value: string;
}

/** Returns the raises that let an open limit's calls continue: of the calls if they are used up, else of the amount. */
export function proposeRaises({ limitUsd, spentUsd, calls, remainingCalls }: Envelope): Proposal[] {
  if (calls !== null && remainingCalls === 0) {
    return [2, 4].map((factor) => ({ name: "calls", value: String(calls * factor) }));
  }
  const base = Number(limitUsd) >= Number(spentUsd ?? 0) ? limitUsd : (spentUsd ?? limitUsd);
  const factors = Number(base) === 0 ? [] : ["2", "4"];
  return factors.flatMap((factor) => {
    const value = readUsdAmount(formatDecimal(multiply(parseDecimal(base), parseDecimal(factor))));
    return value === null ? [] : [{ name: "limitUsd" as const, value }];
  });
}

/** The fields of the form that changes an envelope's limits. */
export function limitFields({ limitUsd, calls, endsAt, version }: Envelope): Record<string, string> {
  return { limitUsd, calls: calls === null ? "" : String(calls), endsAt: toUtcField(endsAt), version };
}
