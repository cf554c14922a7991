import { z } from "zod";
import type { TokenCounts } from "../_shared/money.ts";
import { guessTokens, readUsage, type UsageBound } from "./usage.ts";

/** What a stream has told so far. */
type StreamFacts = {
  /** The last usage that was stated, and whether it came in the chunk that closes the count. */
  usage?: Required<TokenCounts>;
  usageIsFinal: boolean;
  /** `[DONE]` has come: nothing after it counts. */
  done: boolean;
  /** The provider has sent an error, or something that is no chunk. */
  failed: boolean;
  /** Events with content so far, and a guess at what they hold. */
  events: number;
  guessedOutputTokens: number;
  /** Name of the answer, as a parsed chunk had it. */
  chunk?: { id: string; created: number; model: string };
};

export type SseScanner = {
  facts: StreamFacts;
  /** Takes bytes as they came and returns what to pass on: the same bytes, unless an event is ours to keep. */
  push: (bytes: Uint8Array) => Uint8Array[];
  /** What is left when the stream has ended without closing its last event. */
  end: () => Uint8Array[];
};

/** An event beyond this is no chat chunk. */
const maxEventBytes = 16 * 1024 * 1024;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const empty = new Uint8Array(0);
const blankLine = Uint8Array.of(lineFeed, lineFeed);
const telling = /"usage"\s*:\s*\{|"error"\s*:|\[DONE\]/;
const lineEnd = /\r\n?|\n/;
const errorEvent = /^event: ?error\s*$/m;

const chunkShape = z.looseObject({
  id: z.string().optional().catch(undefined),
  created: z.number().optional().catch(undefined),
  model: z.string().optional().catch(undefined),
  choices: z.array(z.unknown()),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});

/**
 * Reads a stream of chat completion chunks on its way through. Content events are never parsed: only those that hold
 * usage, an error or the terminator. What is neither a chunk nor silent is a failure, and is passed on to nobody.
 * @param keepUsageChunk the client asked for the usage chunk itself; otherwise it is taken out
 */
export function createSseScanner({
  keepUsageChunk,
  usageBound,
}: {
  keepUsageChunk: boolean;
  usageBound: UsageBound;
}): SseScanner {
  const facts: StreamFacts = { usageIsFinal: false, done: false, failed: false, events: 0, guessedOutputTokens: 0 };
  const decoder = new TextDecoder("utf-8");
  let pending = empty;
  let smallest = Number.POSITIVE_INFINITY;

  function push(bytes: Uint8Array): Uint8Array[] {
    const whole = pending.length === 0 ? bytes : concat(pending, bytes);
    // The end of the line before may be what makes the next byte a blank line.
    let searchFrom = Math.max(0, pending.length - 3);
    const out: Uint8Array[] = [];
    let passFrom = 0;
    let eventFrom = 0;
    while (!facts.done && !facts.failed) {
      const eventEnd = endOfEvent(whole, searchFrom);
      if (eventEnd < 0) break;
      if (!passes(whole.subarray(eventFrom, eventEnd))) {
        if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
        passFrom = eventEnd;
      }
      eventFrom = eventEnd;
      searchFrom = eventEnd;
    }
    if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
    pending = facts.done || facts.failed ? empty : whole.slice(eventFrom);
    if (pending.length > maxEventBytes) facts.failed = true;
    return out;
  }

  function end(): Uint8Array[] {
    const last = pending;
    pending = empty;
    // What follows is ours, and begins an event of its own.
    return last.length > 0 && !facts.done && !facts.failed && passes(last) ? [last, blankLine] : [];
  }

  /** Learns from one event. @returns whether the client gets it */
  function passes(event: Uint8Array): boolean {
    const text = decoder.decode(event);
    // The first event is read for the answer's name, which our own last event repeats.
    if (facts.events > 0 && isContent(text)) {
      count(event.length);
      return true;
    }
    if (isSilent(text)) return true;
    const data = dataOf(text).trim();
    if (data === "[DONE]") {
      facts.done = true;
      return false;
    }
    const chunk = parseChunk(data);
    if (!chunk || errorEvent.test(text) || (chunk.error !== undefined && chunk.error !== null)) {
      facts.failed = true;
      return false;
    }
    if (chunk.id) facts.chunk = { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? "" };
    const usage = readUsage(chunk.usage, usageBound);
    const closesCount = chunk.choices.length === 0 && chunk.usage !== undefined && chunk.usage !== null;
    if (usage) {
      facts.usage = usage;
      facts.usageIsFinal = closesCount;
    }
    if (!closesCount) count(event.length);
    return !closesCount || keepUsageChunk;
  }

  /** What an event has beyond the smallest one is taken for content. */
  function count(bytes: number): void {
    facts.events += 1;
    smallest = Math.min(smallest, bytes);
    if (facts.events > 1) facts.guessedOutputTokens += Math.max(1, guessTokens(bytes - smallest));
  }

  return { facts, push, end };
}

/** One line of data, a chunk by its looks, without a word that has to be read. */
function isContent(event: string): boolean {
  const line = event.trimEnd();
  return (
    /^data: ?\{/.test(line) &&
    line.endsWith("}") &&
    /"choices": ?\[/.test(line) &&
    !lineEnd.test(line) &&
    !telling.test(line)
  );
}

/** Comments and fields that say nothing by themselves, as providers send to keep a connection open. */
function isSilent(event: string): boolean {
  return event.split(lineEnd).every((line) => line === "" || /^(?::|id:|retry:)/.test(line));
}

/** Where the first event at or after `from` ends, its blank line included; -1 while it is open. */
function endOfEvent(bytes: Uint8Array, from: number): number {
  const end = endByLineFeeds(bytes, from);
  const searched = end < 0 ? bytes : bytes.subarray(0, end);
  for (let at = searched.indexOf(carriageReturn, from); at >= 0; at = searched.indexOf(carriageReturn, at + 1)) {
    if (searched[at + 1] === carriageReturn) return at + 2;
  }
  return end;
}

function endByLineFeeds(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(lineFeed, from); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) {
    if (bytes[at + 1] === lineFeed) return at + 2;
    if (bytes[at + 1] === carriageReturn && bytes[at + 2] === lineFeed) return at + 3;
  }
  return -1;
}

/** The data of an event: its `data` fields, joined by line feeds (WHATWG HTML, 9.2.6). */
function dataOf(event: string): string {
  const values = event.split(lineEnd).flatMap((line) => (line.startsWith("data:") ? [line.slice(5)] : []));
  return values.map((value) => (value.startsWith(" ") ? value.slice(1) : value)).join("\n");
}

function parseChunk(data: string): z.infer<typeof chunkShape> | undefined {
  try {
    const parsed = chunkShape.safeParse(JSON.parse(data));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

function concat(one: Uint8Array, other: Uint8Array): Uint8Array {
  const joined = new Uint8Array(one.length + other.length);
  joined.set(one);
  joined.set(other, one.length);
  return joined;
}
