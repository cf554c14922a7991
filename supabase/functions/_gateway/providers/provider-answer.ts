import type { Attempt, AttemptFailure } from "../../_shared/attempt.ts";
import type { RunRoute } from "../database.ts";
import type { Take } from "./body-reader.ts";
import type { Connection } from "./connection.ts";
import type { Answer } from "./exchange.ts";
import { type ProviderFailure, refusalFailure } from "./provider-failure.ts";

/** A provider's answer from its first byte on. */
export type ProviderAnswer = {
  route: RunRoute;
  /** In lower case; empty if the provider names none. */
  contentType: string;
  /** The next bytes; undefined at the end. @throws ProviderFailure */
  read: () => Promise<Uint8Array | undefined>;
  /** Hands over what comes until `take` has had enough. @returns whether there may be more @throws ProviderFailure */
  pour: (take: Take) => Promise<boolean>;
  /** Puts back what was read, to be read again. */
  unread: (bytes: Uint8Array) => void;
  /** Ends the call; the provider sees its client leave. */
  cancel: () => void;
  /** The provider charges for all of it even if the client leaves, so it is read to the end rather than cancelled. */
  drains: boolean;
  /**
   * Aborts when the request ends or its total time is up, even while its answer is not being read. Not a getter: V8 would
   * give each object a hidden class, which keeps the call until a full collection.
   */
  ended: () => AbortSignal;
  startedAt: number;
  firstByteAt: number;
  /** The attempt as it is recorded. @param failure absent where it succeeded */
  attempt: (failure?: AttemptFailure) => Attempt;
};

/** Enough of an error to know what it says, in characters, and how long it may take to come. */
const longestError = 16_384;
const errorWithinMs = 1_000;

/** Reads the error that a provider answered. */
export async function readRefusedAnswer(answer: Answer, connection: Connection): Promise<ProviderFailure> {
  const decoder = new TextDecoder();
  let text = "";
  connection.expectWithin(errorWithinMs);
  try {
    for (let bytes = await answer.read(); bytes && text.length < longestError; bytes = await answer.read()) {
      text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // The status says enough.
  }
  return refusalFailure({ ...answer, text });
}

/** Reads an answer whose first bytes are there, each of the next within the time for a pause. */
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
  /** Ends the request if the next bytes do not come. */
  async function attended<More>(reading: () => Promise<More>): Promise<More> {
    try {
      connection.expectWithin(idleMs);
      const more = await reading();
      // While the client reads, only the total time runs.
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
