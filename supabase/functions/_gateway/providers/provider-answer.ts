import type { Attempt, AttemptFailure } from "../../_shared/attempt.ts";
import type { RunRoute } from "../database/database.ts";
import type { Take } from "./body-reader.ts";
import type { Connection } from "./connection.ts";
import type { ExchangeAnswer } from "./exchange.ts";
import type { UnbilledEnding } from "./kinds/kind.ts";
import { type ProviderFailure, refusalFailure } from "./provider-failure.ts";

/** A provider's answer, available from its first byte. */
export type ProviderAnswer = {
  route: RunRoute;
  /** The content type in lower case, or empty if the provider states none. */
  contentType: string;
  /**
   * Returns the next bytes, or undefined at the end.
   * @throws ProviderFailure
   */
  read: () => Promise<Uint8Array | undefined>;
  /**
   * Passes bytes to `take` until `take` wants no more.
   * @returns whether more bytes may follow
   * @throws ProviderFailure
   */
  pipe: (take: Take) => Promise<boolean>;
  /** Puts bytes back, so that the next read returns them again. */
  unread: (bytes: Uint8Array) => void;
  /** Closes the connection to the provider. */
  cancel: () => void;
  /**
   * Expects only the end of the answer. Limits the wait for each later piece to `limitMs`, and keeps the request running
   * even if the client disconnects.
   */
  expectEnd: (limitMs: number) => void;
  /** Whether the answer is read to its end when the client disconnects, because the provider charges in full anyway. */
  drains: boolean;
  /** The endings of answers that the provider doesn't bill. */
  unbilled?: readonly UnbilledEnding[];
  /**
   * Returns a signal that aborts when the request ends or its total time is up, even if nothing is reading the answer.
   * This is a method because V8 would give each object with a getter its own hidden class, which keeps the call in
   * memory until a full garbage collection.
   */
  ended: () => AbortSignal;
  startedAt: number;
  firstByteAt: number;
  /** Returns the record of this attempt. @param failure absent if it succeeded */
  attempt: (failure?: AttemptFailure) => Attempt;
};

/** How much of an error is read to classify it, in characters, and how long that may take. */
const maxErrorLength = 16_384;
const errorWithinMs = 1_000;

/** Reads a provider's error answer and returns its failure. */
export async function readErrorAnswer(answer: ExchangeAnswer, connection: Connection): Promise<ProviderFailure> {
  const decoder = new TextDecoder();
  let text = "";
  connection.expectWithin(errorWithinMs);
  try {
    for (let bytes = await answer.read(); bytes && text.length < maxErrorLength; bytes = await answer.read()) {
      text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // If the error can't be read, it is classified by its status alone.
  }
  return refusalFailure({ ...answer, text });
}

/**
 * Returns a reader of an answer whose first bytes have arrived. The wait for each later piece is limited to `idleMs`.
 */
export function createAnswerReader(
  answer: ExchangeAnswer,
  { first, connection, ...limits }: { first: Uint8Array; connection: Connection; idleMs: number },
): Pick<ProviderAnswer, "read" | "pipe" | "unread" | "expectEnd"> {
  let { idleMs } = limits;
  let unreadBytes: Uint8Array | undefined = first;
  function takeUnread(): Uint8Array | undefined {
    const bytes = unreadBytes;
    unreadBytes = undefined;
    return bytes;
  }
  /** Awaits the next bytes, and ends the request if they don't arrive in time. */
  async function awaitNext<More>(reading: () => Promise<More>): Promise<More> {
    try {
      connection.expectWithin(idleMs);
      const more = await reading();
      // The idle limit is off while the client processes bytes. Only the total time limit applies.
      connection.expectWithin(Number.POSITIVE_INFINITY);
      if (!more) connection.close();
      return more;
    } catch (cause) {
      throw connection.explain(cause, { sent: true, retryable: false });
    }
  }
  return {
    async read() {
      return takeUnread() ?? awaitNext(answer.read);
    },
    async pipe(take) {
      const bytes = takeUnread();
      if (bytes && !take(bytes)) return true;
      return awaitNext(() =>
        answer.pipe((more) => {
          const wanted = take(more);
          connection.expectWithin(idleMs);
          return wanted;
        }),
      );
    },
    unread(bytes) {
      unreadBytes = bytes;
    },
    expectEnd(limitMs) {
      idleMs = Math.min(idleMs, limitMs);
      connection.outliveClient();
    },
  };
}
