import type { Attempt, AttemptFailure } from "../../_shared/attempt.ts";
import type { RunRoute } from "../database.ts";
import type { Take } from "./body-reader.ts";
import type { Connection } from "./connection.ts";
import type { Answer } from "./exchange.ts";
import { type ProviderFailure, refusalFailure } from "./provider-failure.ts";

/** A provider's answer, available from its first byte. */
export type ProviderAnswer = {
  route: RunRoute;
  /** The content type in lower case; empty if the provider states none. */
  contentType: string;
  /** Returns the next bytes; undefined at the end. @throws ProviderFailure */
  read: () => Promise<Uint8Array | undefined>;
  /** Passes bytes to `take` until it wants no more. @returns whether there may be more @throws ProviderFailure */
  pour: (take: Take) => Promise<boolean>;
  /** Puts bytes back to be read again. */
  unread: (bytes: Uint8Array) => void;
  /** Ends the call by closing the connection to the provider. */
  cancel: () => void;
  /**
   * Whether the provider charges in full even if the client disconnects, so that the answer is read to its end rather
   * than cancelled.
   */
  drains: boolean;
  /**
   * Returns a signal that aborts when the request ends or its total time is up, even while its answer isn't being read.
   * Not a getter: V8 would give each object a hidden class that keeps the call alive until a full collection.
   */
  ended: () => AbortSignal;
  startedAt: number;
  firstByteAt: number;
  /** Returns the attempt to record. @param failure absent if it succeeded */
  attempt: (failure?: AttemptFailure) => Attempt;
};

/** The length in characters that is enough to classify an error, and how long the error may take to arrive. */
const longestError = 16_384;
const errorWithinMs = 1_000;

/** Reads a provider's error answer and returns its failure. */
export async function readRefusedAnswer(answer: Answer, connection: Connection): Promise<ProviderFailure> {
  const decoder = new TextDecoder();
  let text = "";
  connection.expectWithin(errorWithinMs);
  try {
    for (let bytes = await answer.read(); bytes && text.length < longestError; bytes = await answer.read()) {
      text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // If the error can't be read, its status is enough to classify it.
  }
  return refusalFailure({ ...answer, text });
}

/**
 * Returns a reader of an answer whose first bytes have arrived. Further bytes must each arrive within the idle limit.
 */
export function readerOf(
  answer: Answer,
  { first, connection, idleMs }: { first: Uint8Array; connection: Connection; idleMs: number },
): Pick<ProviderAnswer, "read" | "pour" | "unread"> {
  let ahead: Uint8Array | undefined = first;
  function takeAhead(): Uint8Array | undefined {
    const bytes = ahead;
    ahead = undefined;
    return bytes;
  }
  /** Ends the request if the next bytes don't arrive. */
  async function attended<More>(reading: () => Promise<More>): Promise<More> {
    try {
      connection.expectWithin(idleMs);
      const more = await reading();
      // While the client reads, only the total time limit applies.
      connection.expectWithin(Number.POSITIVE_INFINITY);
      if (!more) connection.close();
      return more;
    } catch (cause) {
      throw connection.explain(cause, { sent: true, retryable: false });
    }
  }
  return {
    async read() {
      return takeAhead() ?? attended(answer.read);
    },
    async pour(take) {
      const bytes = takeAhead();
      if (bytes && !take(bytes)) return true;
      return attended(() =>
        answer.pour((more) => {
          connection.expectWithin(idleMs);
          return take(more);
        }),
      );
    },
    unread(bytes) {
      ahead = bytes;
    },
  };
}
