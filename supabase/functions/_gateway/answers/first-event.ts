import type { Gateway } from "../gateway.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ProviderFailure, refusalFailure } from "../providers/provider-failure.ts";
import { isObject } from "../structured/canonical.ts";
import { hasError, tellsError } from "./error-events.ts";
import { beginsWithEvents, createEventSplitter, dataOf, strayLinesOf } from "./sse.ts";

/** The first events of a response, before anything is written. OpenAI sends them before some errors, too. */
export const beginEvents: ReadonlySet<unknown> = new Set([
  "response.created",
  "response.queued",
  "response.in_progress",
]);
/** A stream with these or comments alone is passed on when one comes after this time: its caller sees that it is alive. */
const commentsForMs = 2_000;
/** A first event may be larger: it is content, and no error. */
const mostHeldBytes = 64 * 1024;

/**
 * Reads an answer until its first event is there, and puts it back: until then another route can still be asked.
 * @returns whether it is a stream: by its bytes, or because it calls itself one
 * @throws ProviderFailure where an error takes the place of the first event, or the stream ends without one
 */
export async function holdFirstEvent(answer: ProviderAnswer, { now }: Pick<Gateway, "now">): Promise<boolean> {
  const isDeclared = answer.contentType.startsWith("text/event-stream");
  const pieces: Uint8Array[] = [];
  let held = new Uint8Array(0);
  let begun = false;
  const splitter = createEventSplitter(
    (event) => {
      begun = isContent(new TextDecoder().decode(event));
      return begun ? "stop" : "drop";
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
    const isFull = held.length > mostHeldBytes;
    if (isStream === false) {
      // JSON that calls itself a stream is an error, or a whole answer that the stream's reader knows.
      if (isDeclared && bytes && !isFull && isOpenJson(held)) continue;
      if (isDeclared) refuseError(new TextDecoder().decode(held));
      answer.unread(held);
      return isDeclared;
    }
    if (bytes) splitter.push(bytes);
    else splitter.end();
    if (!begun && !bytes) throw new ProviderFailure("invalid_answer", { mayHaveCharged: true });
    const isAlive = isStream && now() - answer.firstByteAt > commentsForMs;
    if (begun || isFull || isAlive) {
      answer.unread(held);
      return isDeclared || isStream === true;
    }
  }
}

const errorEvent = /^event: ?error\s*$/m;
const openBrace = 0x7b;

/** Whether bytes begin a JSON object that is not whole yet. */
function isOpenJson(bytes: Uint8Array): boolean {
  const text = new TextDecoder().decode(bytes).trim();
  return text.charCodeAt(0) === openBrace && parse(text) === undefined;
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

/**
 * Whether an event belongs to an answer. All others only keep the connection open.
 * @throws ProviderFailure where it is an error that states no usage, or the end of nothing
 */
function isContent(event: string): boolean {
  const data = dataOf(event).trim() || strayLinesOf(event);
  const isError = errorEvent.test(event);
  if (data === "" && !isError) return false;
  if (data === "[DONE]") throw new ProviderFailure("invalid_answer", { mayHaveCharged: true });
  const value = parse(data);
  if (isObject(value) && isOfMessage(value)) return true;
  if (isObject(value) && (value.choices || value.usage || value.response || isOfResponse(value))) {
    const isFailed = value.type === "response.failed" || hasError(value);
    if (isFailed && !isCharged(value)) throw refusalFailure({ status: 200, text: data });
    return !beginEvents.has(value.type);
  }
  if (isError || tellsError(value ?? data)) throw refusalFailure({ status: 200, text: data });
  return false;
}

function isOfResponse({ type }: Record<string, unknown>): boolean {
  return typeof type === "string" && type.startsWith("response.");
}

/** An event of Anthropic's streams, of which the first states what the input costs. */
function isOfMessage({ type }: Record<string, unknown>): boolean {
  return typeof type === "string" && /^(?:message|content_block)_/.test(type);
}

function isCharged({ usage, response }: Record<string, unknown>): boolean {
  return Boolean(usage) || (isObject(response) && Boolean(response.usage));
}

/** @throws ProviderFailure where JSON or a page in place of a stream is an error that states no usage */
function refuseError(text: string): void {
  const value = parse(text);
  const isPage = text.trimStart().startsWith("<");
  if (isPage || (isObject(value) && !value.usage && !value.choices && tellsError(value))) {
    throw refusalFailure({ status: 200, text });
  }
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
