import type { GatewayDatabase, Run } from "../database/database.ts";
import type { Take } from "../providers/body-reader.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { StreamFacts } from "./stream-reader.ts";
import { countOutputTokens } from "./stream-step.ts";

/** A token has at least this many bytes, as in the maximum input (`ai.input_tokens`). */
const minBytesPerToken = 3;
const minStepTokens = 256;
/** A few events. Bytes that waited for a slow client, or for a reservation, may hold thousands of tokens. */
const maxPieceBytes = 1_024;

export type OutputReservation = ReturnType<typeof createOutputReservation>;

/**
 * Reserves further output during a stream, if budgets reserve only the usual output of its kind of call. A step
 * is a quarter of what is reserved so far, so that long answers need few steps.
 */
export function createOutputReservation({
  database,
  run,
  expectedOutput,
  request: { outputLimit, choices },
}: {
  database: Pick<GatewayDatabase, "extendOutput">;
  run: Run;
  expectedOutput: number;
  request: Pick<ParsedRequest, "outputLimit" | "choices">;
}) {
  const limit = outputLimit * choices;
  let reserved = expectedOutput;
  return {
    /** Returns whether a stream has reached what is reserved, and may deliver more. */
    isReached: (facts: StreamFacts) => !facts.finished && reserved < limit && maxOutputTokens(facts) >= reserved,
    /** Reserves the next step. @throws GatewayError if it is refused, or can't be reserved */
    async extend(facts: StreamFacts): Promise<void> {
      const step = Math.max(minStepTokens, Math.ceil(reserved / 4));
      const to = Math.min(Math.max(reserved, maxOutputTokens(facts)) + step, limit);
      await database.extendOutput(run, { from: reserved, to, limit });
      reserved = to;
    },
  };
}

/** Returns `take` for bytes of any length. Takes them in small pieces, and puts back what `take` doesn't want. */
export function takeInPieces(take: Take, unread: (bytes: Uint8Array) => void): Take {
  return (bytes) => {
    for (let at = 0; at < bytes.byteLength; at += maxPieceBytes) {
      if (take(bytes.subarray(at, at + maxPieceBytes))) continue;
      if (at + maxPieceBytes < bytes.byteLength) unread(bytes.subarray(at + maxPieceBytes));
      return false;
    }
    return true;
  };
}

/** Returns the output tokens that a stream has delivered at most. Most providers send an event for each token. */
function maxOutputTokens(facts: StreamFacts): number {
  return Math.max(countOutputTokens(facts), facts.events, Math.ceil(facts.outputBytes / minBytesPerToken));
}
