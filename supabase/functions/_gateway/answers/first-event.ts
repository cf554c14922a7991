import type { Gateway } from "../gateway.ts";
import type { ProviderAnswer } from "../providers/provider.ts";
import { ProviderFailure, refusalFailure } from "../providers/provider-failure.ts";
import { beginsWithEvents, createEventSplitter, dataOf, isNameAlone, isSilent } from "./sse.ts";
import { tellsError } from "./stream-reader.ts";

/** A stream with comments alone is passed on when one comes after this time, so that its caller sees that it is alive. */
const commentsForMs = 2_000;
/** A first event may be larger: it is content, and no error. */
const mostHeldBytes = 64 * 1024;

/**
 * Reads an answer until its first event is there, and puts it back: until then another route can still be asked.
 * @returns whether the answer is an event stream, by its bytes
 * @throws ProviderFailure where the first event is an error, or the stream ends without one
 */
export async function holdFirstEvent(answer: ProviderAnswer, { now }: Pick<Gateway, "now">): Promise<boolean> {
  const pieces: Uint8Array[] = [];
  let held = new Uint8Array(0);
  let first: string | undefined;
  const splitter = createEventSplitter(
    (event) => {
      const text = new TextDecoder().decode(event);
      if (isSilent(text) || isNameAlone(text)) return "drop";
      first = text;
      return "stop";
    },
    () => {},
  );
  for (;;) {
    const bytes = await readOn(answer);
    if (bytes) {
      pieces.push(bytes);
      held = concat(pieces);
    }
    const isStream = beginsWithEvents(held);
    if (isStream === false || (!bytes && isStream === undefined)) {
      answer.unread(held);
      return false;
    }
    if (bytes) splitter.push(bytes);
    else splitter.end();
    if (first !== undefined) {
      throwError(first);
      answer.unread(held);
      return true;
    }
    if (!bytes) throw new ProviderFailure("invalid_answer", { mayHaveCharged: true });
    if (held.length > mostHeldBytes || (isStream && now() - answer.firstByteAt > commentsForMs)) {
      answer.unread(held);
      return isStream === true;
    }
  }
}

/** Nothing has reached the caller yet, so another route may be asked. */
async function readOn(answer: ProviderAnswer): Promise<Uint8Array | undefined> {
  try {
    return await answer.read();
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    throw new ProviderFailure(error.failure, { mayHaveCharged: error.mayHaveCharged, cause: error });
  }
}

/** @throws ProviderFailure where an event is an error that states no usage, or the end of nothing */
function throwError(event: string): void {
  const data = dataOf(event).trim();
  if (data === "[DONE]") throw new ProviderFailure("invalid_answer", { mayHaveCharged: true });
  const isNamed = /^event: ?error\s*$/m.test(event);
  const value = parse(data);
  if (typeof value !== "object" || value === null) {
    if (isNamed) throw refusalFailure({ status: 200, text: data });
    return;
  }
  const { usage, choices, type } = value as Record<string, unknown>;
  const isError = isNamed || type === "response.failed" || tellsError(value as Record<string, unknown>);
  if (isError && !usage && !choices) throw refusalFailure({ status: 200, text: data });
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
