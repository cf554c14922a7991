import { isObject, parseJsonOrUndefined } from "../../_shared/json.ts";
import { concatBytes } from "../http/body.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ClientLeft, ProviderFailure, refusalFailure } from "../providers/provider-failure.ts";
import { createCallUse, type StatedUsage } from "../usage/usage.ts";
import { hasError, reportsError, reportsUsage } from "./error-events.ts";
import { beginsWithEvents, createEventSplitter, readEventData, strayLinesOf } from "./sse.ts";
import type { StreamReader } from "./stream-reader.ts";

/** The first events of a response, sent before any output. OpenAI also sends them before some errors. */
export const responseBeginEvents: ReadonlySet<unknown> = new Set([
  "response.created",
  "response.queued",
  "response.in_progress",
]);
/** A larger first event isn't buffered: it is content, not an error. */
const maxBufferedBytes = 64 * 1024;

/**
 * Reads an answer up to its first content and puts the bytes back. Until then, another route can still be called.
 * @param createReader creates a reader for the usage of a stream that is interrupted after its opening
 * @returns whether the answer is a stream, judged by its bytes or its content type
 * @throws ProviderFailure if an error arrives instead of the first event, or the stream ends without one
 */
export async function bufferFirstEvent(
  answer: ProviderAnswer,
  createReader: () => StreamReader | undefined,
): Promise<boolean> {
  const isDeclared = answer.contentType.startsWith("text/event-stream");
  let buffered = new Uint8Array(0);
  const state: { latest: Role } = { latest: "idle" };
  const splitter = createEventSplitter(
    (event) => {
      const role = classifyEvent(new TextDecoder().decode(event), state.latest);
      if (role !== "idle") state.latest = role;
      return role === "content" ? "stop" : "drop";
    },
    () => {},
  );
  for (;;) {
    const bytes = await readNext(answer, () => {
      const reader = createReader();
      reader?.push(buffered);
      return reader?.facts.usage;
    });
    if (bytes) buffered = concatBytes([buffered, bytes], buffered.length + bytes.length);
    const isStream = beginsWithEvents(buffered);
    const isFull = buffered.length > maxBufferedBytes;
    if (isStream === false) {
      // A provider may send JSON with the content type of a stream. The JSON is either an error or a whole answer,
      // which the stream's reader accepts.
      if (isDeclared && bytes && !isFull && isOpenJson(buffered)) continue;
      if (isDeclared) throwIfError(new TextDecoder().decode(buffered));
      answer.unread(buffered);
      return isDeclared;
    }
    if (bytes) splitter.push(bytes);
    else splitter.end();
    const { latest } = state;
    // The reader of a stream that ends after its opening meters what the opening states.
    const isMetered = latest === "content" || latest === "opening";
    if (!bytes && !isMetered) throw invalidStream(latest);
    if (latest === "content" || isFull || !bytes) {
      answer.unread(buffered);
      return isDeclared || isStream === true;
    }
  }
}

const errorEvent = /^event: ?error\s*$/m;
const openBrace = 0x7b;

/** Returns whether bytes begin a JSON object that is still incomplete. */
function isOpenJson(bytes: Uint8Array): boolean {
  const text = new TextDecoder().decode(bytes).trim();
  return text.charCodeAt(0) === openBrace && parseJsonOrUndefined(text) === undefined;
}

/**
 * Reads the next bytes. Nothing has reached the caller yet, so another route may be called if this fails.
 * @param usageSoFar returns the usage that the bytes before state. The provider charges for it even if this fails.
 */
async function readNext(
  answer: ProviderAnswer,
  usageSoFar: () => StatedUsage | undefined,
): Promise<Uint8Array | undefined> {
  try {
    return await answer.read();
  } catch (error) {
    const usage = usageSoFar();
    const use = usage && createCallUse(usage, { route: answer.route.position, basis: "partial" });
    if (error instanceof ClientLeft) error.use = use;
    if (!(error instanceof ProviderFailure)) throw error;
    const { failure, mayHaveCharged } = error;
    throw new ProviderFailure(failure, { mayHaveCharged, use: use ?? error.use, cause: error });
  }
}

/**
 * What an event is: content, the opening of an answer, which the provider may charge for, a sign that it accepted the
 * request, or only a sign that the connection is open.
 */
type Role = "content" | "opening" | "accepted" | "idle";

/**
 * Returns the role of an event that follows events of the role `latest`.
 * @throws ProviderFailure if the event is an error that states no usage, or ends the stream without output
 */
function classifyEvent(event: string, latest: Role): Role {
  const streamBegan = latest !== "idle";
  const data = readEventData(event).trim() || strayLinesOf(event);
  const isError = errorEvent.test(event);
  if (data === "" && !isError) return "idle";
  if (data === "[DONE]") {
    if (latest === "opening") return "content";
    throw invalidStream(latest);
  }
  const value = parseJsonOrUndefined(data);
  if (isObject(value) && isOfMessage(value)) return isMessageOpening(value) ? "opening" : "content";
  if (
    isObject(value) &&
    (value.choices || value.usage || value.response || isOfResponse(value) || reportsUsage(value))
  ) {
    const isFailed = value.type === "response.failed" || hasError(value);
    if (isFailed && !reportsUsage(value)) throw refusalFailure({ status: 200, text: data }, { streamBegan });
    if (responseBeginEvents.has(value.type)) return "accepted";
    return isChunkOpening(value) ? "opening" : "content";
  }
  if (isError || reportsError(value ?? data)) throw refusalFailure({ status: 200, text: data }, { streamBegan });
  return "idle";
}

/** Returns the failure of a stream that ended without output. */
function invalidStream(latest: Role): ProviderFailure {
  return new ProviderFailure("invalid_answer", { mayHaveCharged: true, streamBegan: latest !== "idle" });
}

/** Returns whether an event of Anthropic's streams comes before any content. */
function isMessageOpening({ type, content_block: block }: Record<string, unknown>): boolean {
  if (type !== "content_block_start") return type === "message_start";
  return isObject(block) && (block.type === "text" ? block.text === "" : block.type === "thinking" && !block.thinking);
}

/** Returns whether a chat chunk states only the role of its message. */
function isChunkOpening({ choices, usage }: Record<string, unknown>): boolean {
  if (!Array.isArray(choices) || usage) return false;
  return choices.every((choice) => {
    if (!isObject(choice) || !isObject(choice.delta) || choice.finish_reason) return false;
    return Object.entries(choice.delta).every(([name, value]) => name === "role" || value === null || value === "");
  });
}

function isOfResponse({ type }: Record<string, unknown>): boolean {
  return typeof type === "string" && type.startsWith("response.");
}

/** Returns whether an event belongs to Anthropic's streams, whose first event states the usage of the input. */
function isOfMessage({ type }: Record<string, unknown>): boolean {
  return typeof type === "string" && /^(?:message|content_block)_/.test(type);
}

/** @throws ProviderFailure if the provider sent an HTML page, or an error that states no usage, instead of a stream */
function throwIfError(text: string): void {
  const value = parseJsonOrUndefined(text);
  const isPage = text.trimStart().startsWith("<");
  const isFailed = isObject(value) && (value.choices ? hasError(value) : reportsError(value)) && !reportsUsage(value);
  if (isPage || isFailed) throw refusalFailure({ status: 200, text });
}
