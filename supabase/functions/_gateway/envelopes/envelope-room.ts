import { add, formatDecimal, multiply, parseDecimal } from "../../_shared/decimal.ts";
import { jsonNumber } from "../../_shared/raw-json.ts";

/** The envelope of a run. Its amount is an exact decimal, and absent if the caller may not see cost. */
export type RunEnvelope = { id: string; label: string; remaining_usd?: string; remaining_calls?: number };

type Reservation = { reserved_usd: string; reserved_credits: string };
type HeldRun = { envelope?: RunEnvelope | null };

/** Changes what a run reserves, and with it what is left of its envelope. */
export function changeReservation(run: HeldRun & Reservation, reserved: Reservation): void {
  addDifference(run, run.reserved_usd, reserved.reserved_usd);
  Object.assign(run, reserved);
}

/** Counts what an ended run reserved and did not cost as left of its envelope. */
export function releaseUnused(run: HeldRun & Pick<Reservation, "reserved_usd">, costUsd: string): void {
  addDifference(run, run.reserved_usd, costUsd);
}

const minusOne = parseDecimal("-1");

function addDifference({ envelope }: HeldRun, reserved: string, needed: string): void {
  if (envelope?.remaining_usd === undefined) return;
  const unused = add(parseDecimal(reserved), multiply(parseDecimal(needed), minusOne));
  const remaining = add(parseDecimal(envelope.remaining_usd), unused);
  envelope.remaining_usd = remaining.units < 0n ? "0" : formatDecimal(remaining);
}

/** Returns the headers with what is left of a run's envelope; none without an envelope. */
export function envelopeHeaders({ envelope }: HeldRun): Record<string, string> {
  if (!envelope) return {};
  const { id, remaining_usd, remaining_calls } = envelope;
  return {
    "x-platform-envelope-id": id,
    ...(remaining_usd === undefined ? {} : { "x-platform-envelope-remaining-usd": remaining_usd }),
    ...(remaining_calls === undefined ? {} : { "x-platform-envelope-remaining-calls": String(remaining_calls) }),
  };
}

/** Returns the member `platform.envelope` of an answer, with what is left of its envelope. */
export function envelopeMember({ envelope }: HeldRun): { envelope?: object } {
  if (!envelope) return {};
  const { id, remaining_usd, remaining_calls } = envelope;
  const amount = remaining_usd === undefined ? undefined : jsonNumber(remaining_usd);
  return { envelope: { id, remaining_usd: amount, remaining_calls } };
}
