/** What becomes of an event: the client gets it as it came, or other bytes in its place, or nothing; or it is the last. */
export type Fate = "pass" | "drop" | "stop" | Uint8Array;

export type EventSplitter = {
  /** Takes bytes as they came and returns what to pass on: the same bytes, unless an event is ours to keep. */
  push: (bytes: Uint8Array) => Uint8Array[];
  /** What is left when the stream has ended without closing its last event. */
  end: () => Uint8Array[];
  /** An event was the last one, or none at all by its size: nothing more is read or passed on. */
  stopped: () => boolean;
};

/** An event beyond this is nobody's chunk. */
const maxEventBytes = 16 * 1024 * 1024;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const empty = new Uint8Array(0);
const blankLine = Uint8Array.of(lineFeed, lineFeed);
/** As Latin-1. */
const byteOrderMark = "\u00EF\u00BB\u00BF";
const latin1 = new TextDecoder("latin1");
export const lineEnd = /\r\n?|\n/;

/**
 * Splits a stream of server-sent events (WHATWG HTML, 9.2) on its way through. Whole events that pass are never
 * copied, nor held back for the next.
 * @param take is shown each event, blank line included, and says what becomes of it
 * @param tooLarge is told of an event beyond all bounds
 */
export function createEventSplitter(take: (event: Uint8Array) => Fate, tooLarge: () => void): EventSplitter {
  let pending: Uint8Array = empty;
  let stopped = false;
  let begun = false;

  function push(bytes: Uint8Array): Uint8Array[] {
    const whole = pending.length === 0 ? bytes : append(pending, bytes);
    // The end of the line before may be what makes the next byte a blank line.
    let searchFrom = Math.max(0, pending.length - 3);
    const out: Uint8Array[] = [];
    // A byte order mark is not part of the first event, and some clients take it for the beginning of a field.
    const from = !begun && latin1.decode(whole.subarray(0, 3)) === byteOrderMark ? 3 : 0;
    let passFrom = from;
    let eventFrom = from;
    // Looked for again only once it is passed: else all that is left would be searched for each event without one.
    let blankByFeeds: number | undefined;
    while (!stopped) {
      if (blankByFeeds === undefined || (blankByFeeds >= 0 && blankByFeeds - 3 < searchFrom)) {
        blankByFeeds = endByLineFeeds(whole, searchFrom);
      }
      const eventEnd = endOfEvent(whole, searchFrom, blankByFeeds);
      if (eventEnd < 0) break;
      begun = true;
      const fate = take(whole.subarray(eventFrom, eventEnd));
      if (fate !== "pass") {
        if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
        if (fate instanceof Uint8Array) out.push(fate);
        passFrom = eventEnd;
        stopped = fate === "stop";
      }
      eventFrom = eventEnd;
      searchFrom = eventEnd;
    }
    if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
    if (stopped || eventFrom === whole.length) pending = empty;
    // What was passed on is looked at by others, and what has come may be: nothing is added to either.
    else if (eventFrom > 0 || whole === bytes) pending = new Uint8Array(whole.subarray(eventFrom));
    else pending = whole;
    if (pending.length > maxEventBytes) {
      stopped = true;
      tooLarge();
    }
    return out;
  }

  function end(): Uint8Array[] {
    const last = pending;
    pending = empty;
    if (last.length === 0 || stopped) return [];
    const fate = take(last);
    stopped = fate === "stop";
    // Exactly one blank line: a second one is an empty event to some clients.
    if (fate === "pass") return [last, blankLine.subarray(last.at(-1) === lineFeed ? 1 : 0)];
    return fate instanceof Uint8Array ? [fate] : [];
  }

  return { push, end, stopped: () => stopped };
}

/** The beginning of an event stream up to where it shows: blank lines, then a comment or one of the four fields. */
const beginning = /^(?:[ \t\r\n]*[\r\n])?(?:(?:data|event|id|retry)?:)/;
/** What may still become that. */
const openBeginning = /^(?:[ \t\r\n]*[\r\n])?(?:[ \t]*|d|da|dat|data|e|ev|eve|even|event|i|id|r|re|ret|retr|retry)$/;

/**
 * Returns whether the first bytes of an answer begin an event stream (WHATWG HTML, 9.2.5), regardless of its content type;
 * undefined if there are too few of them to decide.
 */
export function beginsWithEvents(bytes: Uint8Array): boolean | undefined {
  // Decoded as Latin-1, a byte is a character, so a byte order mark may be cut anywhere.
  const text = latin1.decode(bytes);
  const unmarked = text.startsWith(byteOrderMark) ? text.slice(byteOrderMark.length) : text;
  if (beginning.test(unmarked)) return true;
  return byteOrderMark.startsWith(text) || openBeginning.test(unmarked) ? undefined : false;
}

/** A line that keeps a connection open without ending an event: older SDKs fail on a blank line without data before it. */
export const keepaliveLine: Uint8Array = new TextEncoder().encode(": keepalive\n");

/** The data of an event: its `data` fields, joined by line feeds. */
export function dataOf(event: string): string {
  const values = event.split(lineEnd).flatMap((line) => (line.startsWith("data:") ? [line.slice(5)] : []));
  return values.map((value) => (value.startsWith(" ") ? value.slice(1) : value)).join("\n");
}

/** The lines of an event that are no fields, as those of JSON that has come in place of it. */
export function strayLinesOf(event: string): string {
  const lines = event.split(lineEnd).filter((line) => !/^(?:data|event|id|retry)?:/.test(line));
  return lines.join("\n").trim();
}

/**
 * Where the first event at or after `from` ends, its blank line included; -1 while it is open.
 * @param end where the first does that line feeds end
 */
function endOfEvent(bytes: Uint8Array, from: number, end: number): number {
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

/**
 * Adds what came in the room behind what is pending. Where that is too small there is twice as much next, so that many
 * pieces are copied once.
 */
function append(pending: Uint8Array, bytes: Uint8Array): Uint8Array {
  const length = pending.length + bytes.length;
  const fits = length <= pending.buffer.byteLength;
  const joined = new Uint8Array(fits ? pending.buffer : new ArrayBuffer(2 * length), 0, length);
  if (!fits) joined.set(pending);
  joined.set(bytes, pending.length);
  return joined;
}
