/** Limits of a JSON text that hold before it is parsed. */
export type JsonLimits = {
  /** The maximum nesting. Deeper recursion would overflow the stack. */
  maxDepth: number;
  /** The maximum number of values. Commas and opening brackets count as values. */
  maxValues: number;
  /** The maximum number of members of one object. The cost of a member grows with their number. */
  maxMembers: number;
  /**
   * The maximum number of integers of up to 15 digits in lists, which take little time each. If unset, they count as
   * values.
   */
  maxNumbers?: number | undefined;
};

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Returns what exceeds the limits in a JSON text, or null. An empty object takes two bytes in the text but fifty in
 * memory, so the size alone doesn't limit the work.
 */
export function jsonStructureFault(
  bytes: Uint8Array,
  { maxDepth, maxValues, maxMembers, maxNumbers }: JsonLimits,
): string | null {
  /** The number of members of each open object, by depth. */
  const members = new Uint32Array(maxDepth + 1);
  let depth = 0;
  let values = 1;
  let numbers = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) at = endOfText(bytes, at);
    else if (byte === comma) {
      const end = maxNumbers === undefined ? 0 : endOfInteger(bytes, at + 1);
      if (end === 0) values += 1;
      else {
        at = end - 1;
        numbers += 1;
        if (numbers === maxNumbers) return `The body may have ${maxNumbers} numbers in lists at most.`;
      }
    } else if (byte === colon) {
      const count = (members[depth] ?? 0) + 1;
      if (count > maxMembers) return `An object may have ${maxMembers} members at most.`;
      members[depth] = count;
    } else if (byte === openBracket || byte === openBrace) {
      depth += 1;
      values += 1;
      if (depth > maxDepth) return "The body is nested too deeply.";
      members[depth] = 0;
    } else if (byte === closeBracket || byte === closeBrace) depth -= 1;
    if (values > maxValues) return `The body may have ${maxValues} values at most.`;
  }
  return null;
}

/** Returns the offset after an integer of up to 15 digits that is a member of a list, or 0 if there is none. */
function endOfInteger(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isBlank(bytes[at])) at += 1;
  const first = at;
  while (isDigit(bytes[at])) at += 1;
  const isMember = bytes[at] === comma || bytes[at] === closeBracket;
  return at > first && at - first <= 15 && isMember ? at : 0;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/**
 * Returns the offset of the quote that closes the string opened at `from`: the next quote after an even number of
 * backslashes.
 */
function endOfText(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(quote, from + 1); at >= 0; at = bytes.indexOf(quote, at + 1)) {
    let before = at;
    while (bytes[before - 1] === backslash) before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
  return bytes.length;
}

/** Returns whether no text in a parsed JSON value has a NUL character or a lone surrogate, which Postgres refuses. */
export function isStorableJson(root: unknown): boolean {
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const value = waiting.pop();
    if (typeof value === "string") {
      if (!isStorableText(value)) return false;
    } else if (Array.isArray(value)) for (const each of value) waiting.push(each);
    else if (typeof value === "object" && value !== null) {
      for (const [name, each] of Object.entries(value)) {
        if (!isStorableText(name)) return false;
        waiting.push(each);
      }
    }
  }
  return true;
}

function isStorableText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\u0000");
}
