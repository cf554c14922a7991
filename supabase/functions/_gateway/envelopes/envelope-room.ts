import { jsonNumber } from "../../_shared/raw-json.ts";

/** The envelope of a run. Amounts are absent if its caller may not see cost. */
export type RunEnvelope = { id: string; label: string; remaining_usd?: number; remaining_calls?: number };

type Reservation = { reserved_usd: string; reserved_credits: string };
type HeldRun = { envelope?: RunEnvelope | null };

/** Changes what a run reserves, and with it what is left of its envelope. */
export function changeReservation(run: HeldRun & Reservation, reserved: Reservation): void {
  addRoom(run, Number(run.reserved_usd) - Number(reserved.reserved_usd));
  Object.assign(run, reserved);
}

/** Counts what an ended run reserved and did not cost as left of its envelope. */
export function releaseUnused(run: HeldRun & Pick<Reservation, "reserved_usd">, costUsd: string): void {
  addRoom(run, Number(run.reserved_usd) - Number(costUsd));
}

function addRoom({ envelope }: HeldRun, usd: number): void {
  if (envelope?.remaining_usd !== undefined) envelope.remaining_usd = Math.max(envelope.remaining_usd + usd, 0);
}

/** Returns the headers with what is left of a run's envelope; none without an envelope. */
export function envelopeHeaders({ envelope }: HeldRun): Record<string, string> {
  if (!envelope) return {};
  const { id, remaining_usd, remaining_calls } = envelope;
  return {
    "x-platform-envelope-id": id,
    ...(remaining_usd === undefined ? {} : { "x-platform-envelope-remaining-usd": formatUsd(remaining_usd) }),
    ...(remaining_calls === undefined ? {} : { "x-platform-envelope-remaining-calls": String(remaining_calls) }),
  };
}

/** Returns the member `platform.envelope` of an answer, with what is left of its envelope. */
export function envelopeMember({ envelope }: HeldRun): { envelope?: object } {
  if (!envelope) return {};
  const { id, remaining_usd, remaining_calls } = envelope;
  const amount = remaining_usd === undefined ? undefined : jsonNumber(formatUsd(remaining_usd));
  return { envelope: { id, remaining_usd: amount, remaining_calls } };
}

/** Formats an amount with at most 12 decimals, which are stored, and without an exponent. */
function formatUsd(amount: number): string {
  return amount.toFixed(12).replace(/\.?0+$/, "");
}
