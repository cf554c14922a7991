/** What happens to an event: it passes unchanged, is dropped, ends the stream, or is replaced by other bytes. */
export type EventAction = "pass" | "drop" | "stop" | Uint8Array;

/** The largest accepted event. Real events are smaller. */
const maxEventBytes = 16 * 1024 * 1024;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const emptyBytes = new Uint8Array(0);
const blankLine = Uint8Array.of(lineFeed, lineFeed);
/** The UTF-8 byte order mark, decoded as Latin-1. */
const byteOrderMark = "\u00EF\u00BB\u00BF";
const latin1 = new TextDecoder("latin1");
export const lineEnd = /\r\n?|\n/;

/**
 * Splits a stream of server-sent events (WHATWG HTML, 9.2). Passes complete events on without copying or delaying them.
 * @param take receives each event, including its blank line, and decides what happens to it
 * @param tooLarge is called for an event above the size limit
 */
export function createEventSplitter(take: (event: Uint8Array) => EventAction, tooLarge: () => void) {
  let pending: Uint8Array = emptyBytes;
  let isStopped = false;
  let hasReadEvent = false;

  /** Takes the next bytes of the stream. Returns the bytes to pass on, after dropping and replacing events. */
  function push(bytes: Uint8Array): Uint8Array[] {
    const whole = pending.length === 0 ? bytes : append(pending, bytes);
    // A blank line may have begun in the last pending bytes.
    let searchFrom = Math.max(0, pending.length - 3);
    const out: Uint8Array[] = [];
    // Skips a byte order mark, which some clients would read as the start of a field.
    const from = !hasReadEvent && latin1.decode(whole.subarray(0, 3)) === byteOrderMark ? 3 : 0;
    let passFrom = from;
    let eventFrom = from;
    // The offset after the next blank line made of line feeds, or -1 if there is none. Kept across events, because a
    // new search for each event would take quadratic time in streams whose lines end with a lone carriage return.
    let blankByFeeds: number | undefined;
    while (!isStopped) {
      if (blankByFeeds === undefined || (blankByFeeds >= 0 && blankByFeeds - 3 < searchFrom)) {
        blankByFeeds = endByLineFeeds(whole, searchFrom);
      }
      const eventEnd = findEventEnd(whole, searchFrom, blankByFeeds);
      if (eventEnd < 0) break;
      hasReadEvent = true;
      const action = take(whole.subarray(eventFrom, eventEnd));
      if (action !== "pass") {
        if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
        if (action instanceof Uint8Array) out.push(action);
        passFrom = eventEnd;
        isStopped = action === "stop";
      }
      eventFrom = eventEnd;
      searchFrom = eventEnd;
    }
    if (eventFrom > passFrom) out.push(whole.subarray(passFrom, eventFrom));
    if (isStopped || eventFrom === whole.length) pending = emptyBytes;
    // Copies the bytes, because other code may still hold this buffer and the next bytes are appended in place.
    else if (eventFrom > 0 || whole === bytes) pending = new Uint8Array(whole.subarray(eventFrom));
    else pending = whole;
    if (pending.length > maxEventBytes) {
      isStopped = true;
      tooLarge();
    }
    return out;
  }

  /** Returns the bytes still to pass on when the stream has ended, such as an unterminated last event. */
  function end(): Uint8Array[] {
    const last = pending;
    pending = emptyBytes;
    if (last.length === 0 || isStopped) return [];
    const action = take(last);
    isStopped = action === "stop";
    // Adds exactly one blank line, since some clients read a second one as an empty event.
    if (action === "pass") return [last, blankLine.subarray(last.at(-1) === lineFeed ? 1 : 0)];
    return action instanceof Uint8Array ? [action] : [];
  }

  return { push, end };
}

/** Matches the beginning of an event stream: blank lines, then a comment or one of the four fields. */
const streamBeginningPattern = /^(?:[ \t\r\n]*[\r\n])?(?:(?:data|event|id|retry)?:)/;
/** Matches text that may still become the beginning of an event stream. */
const openBeginning = /^(?:[ \t\r\n]*[\r\n])?(?:[ \t]*|d|da|dat|data|e|ev|eve|even|event|i|id|r|re|ret|retr|retry)$/;

/**
 * Returns whether the first bytes of an answer begin an event stream (WHATWG HTML, 9.2.5), regardless of its content
 * type. Returns undefined if more bytes are needed to decide.
 */
export function beginsWithEvents(bytes: Uint8Array): boolean | undefined {
  // Latin-1 maps each byte to one character, so even part of a byte order mark can be decoded.
  const text = latin1.decode(bytes);
  const unmarked = text.startsWith(byteOrderMark) ? text.slice(byteOrderMark.length) : text;
  if (streamBeginningPattern.test(unmarked)) return true;
  return byteOrderMark.startsWith(text) || openBeginning.test(unmarked) ? undefined : false;
}

/** Returns the data of an event: its `data` fields, joined by line feeds. */
export function readEventData(event: string): string {
  const values = event.split(lineEnd).flatMap((line) => (line.startsWith("data:") ? [line.slice(5)] : []));
  return values.map((value) => (value.startsWith(" ") ? value.slice(1) : value)).join("\n");
}

/** Returns the lines of an event that aren't fields, such as lines of a JSON body sent instead of an event. */
export function strayLinesOf(event: string): string {
  const lines = event.split(lineEnd).filter((line) => !/^(?:data|event|id|retry)?:/.test(line));
  return lines.join("\n").trim();
}

/**
 * Returns the offset where the first event at or after `from` ends, including its blank line, or -1 if it is
 * incomplete.
 * @param end the offset after the first blank line made of line feeds, or negative if there is none
 */
function findEventEnd(bytes: Uint8Array, from: number, end: number): number {
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
 * Appends bytes to the pending bytes, using the free space of their buffer. Doubles the buffer when it is full, so that
 * many small pieces don't cause many copies.
 */
function append(pending: Uint8Array, bytes: Uint8Array): Uint8Array {
  const length = pending.length + bytes.length;
  const fits = length <= pending.buffer.byteLength;
  const joined = new Uint8Array(fits ? pending.buffer : new ArrayBuffer(2 * length), 0, length);
  if (!fits) joined.set(pending);
  joined.set(bytes, pending.length);
  return joined;
}
