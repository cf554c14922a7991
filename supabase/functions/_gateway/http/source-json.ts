/**
 * Parses and writes JSON without loss. `JSON.stringify` would change some numbers, names and orders, such as
 * `9223372036854775807`, `1.0`, `1e400`, a member `__proto__`, or members `"2"` before `"1"`. Objects and lists that
 * contain them keep their source text, and {@link stringifyWithSource} writes that text.
 */

/** Matches every text that `JSON.stringify` may not reproduce exactly after parsing, and few others. */
const mayDiffer = /[:,[]\s*-?\d+(?:[.eE]|\d{15})|[:,[]\s*-0|"\d+"\s*:|__proto__|\\u00[0-7]/;
const isIndex = /^\d+$/;
const token = /[^\s,\]}]*/y;
const blank = /\s*/y;
const integers = /\[[\d,\s]*\]/y;

const sources = new WeakMap<object, string>();
/** Marks source text in a string. Random for each process, so no external text can begin with it. */
const sourceMark = `source:${crypto.randomUUID()}:`;
const writesSource = {
  toJSON: {
    value(this: object): string {
      return sourceMark + sources.get(this);
    },
  },
};
const sourcedObject = Object.create(Object.prototype, writesSource);
const sourcedList = Object.create(Array.prototype, writesSource);

/**
 * Parses JSON like `JSON.parse`, but keeps the source text of objects and lists that `JSON.stringify` would write
 * differently. Keeps no source text of an object in which a name occurs twice, or of the objects and lists inside and
 * around that object.
 * @throws SyntaxError
 */
export function parseWithSource(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!mayDiffer.test(text)) return value;
  for (const [container, source] of findInexactContainers(text, value)) {
    sources.set(container, source);
    Object.setPrototypeOf(container, Array.isArray(container) ? sourcedList : sourcedObject);
  }
  return value;
}

/** Writes JSON as `JSON.stringify` does, but keeps the source text of values that {@link parseWithSource} read. */
export function stringifyWithSource(value: unknown): string {
  const text = JSON.stringify(value);
  let output = "";
  let from = 0;
  for (let at = text?.indexOf(`"${sourceMark}`) ?? -1; at >= 0; at = text.indexOf(`"${sourceMark}`, from)) {
    const end = endOfString(text, at);
    output += text.slice(from, at) + JSON.parse(text.slice(at, end)).slice(sourceMark.length);
    from = end;
  }
  return from === 0 ? text : output + text.slice(from);
}

/**
 * Replaces copies of objects and lists with the originals if their members are the same, because a copy, such as one
 * made by a schema, has lost its source text.
 */
export function keepSource(copy: unknown, original: unknown): unknown {
  if (copy === original || !isContainer(copy) || !isContainer(original)) return copy;
  const names = Object.keys(copy);
  const members = copy as Record<string, unknown>;
  let isSame = Array.isArray(copy) === Array.isArray(original) && names.length === Object.keys(original).length;
  for (const name of names) {
    const own = Object.hasOwn(original, name) ? (original as Record<string, unknown>)[name] : undefined;
    members[name] = keepSource(members[name], own);
    isSame &&= members[name] === own;
  }
  return isSame && sources.has(original) ? original : copy;
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/**
 * Returns the offset after the JSON string whose opening quote is at `begin`. Uses a loop, because a regular expression
 * would overflow the stack.
 */
function endOfString(text: string, begin: number): number {
  let at = begin;
  let isEscaped: boolean;
  do {
    at = text.indexOf('"', at + 1);
    let before = at;
    while (text[before - 1] === "\\") before -= 1;
    isEscaped = (at - before) % 2 === 1;
  } while (isEscaped);
  return at + 1;
}

/**
 * Finds the objects and lists that `JSON.stringify` would write differently, each with its source text. If a name
 * occurs twice in an object, skips the object and all objects and lists inside and around it. The gateway checked only
 * the last value of such a name, but a provider could read the first value from the source text.
 * @param text valid JSON
 * @param root its parsed value
 */
function findInexactContainers(text: string, root: unknown): [container: object, source: string][] {
  const found: [object, string][] = [];
  let at = 0;

  function skip(pattern: RegExp): string {
    pattern.lastIndex = at;
    const [skipped = ""] = pattern.exec(text) ?? [];
    at += skipped.length;
    return skipped;
  }

  function skipString(): string {
    const from = at;
    at = endOfString(text, from);
    return text.slice(from, at);
  }

  /** Reads the value at the cursor, and returns whether `JSON.stringify` would write it differently. */
  function visit(value: unknown): "same" | "differs" | "ambiguous" {
    skip(blank);
    const opening = text[at];
    if (opening === '"') {
      skipString();
      return "same";
    }
    if (opening === "[") {
      const from = at;
      const list = skip(integers);
      if (list !== "" && !/\d{16}/.test(list)) return "same";
      at = from;
    }
    if (opening !== "{" && opening !== "[") {
      const number = skip(token);
      return typeof value === "number" && String(value) !== number ? "differs" : "same";
    }
    const from = at;
    // If a name occurs twice, `value` comes from the last occurrence. The text here may be an earlier occurrence with
    // another type of value.
    const container = value as Record<string, unknown> | undefined;
    const names = new Set<string>();
    const foundBefore = found.length;
    let [differs, isAmbiguous, occursTwice] = [false, false, false];
    at += 1;
    for (let index = 0; ; index += 1) {
      skip(blank);
      if (text[at] === ",") {
        at += 1;
        skip(blank);
      }
      if (text[at] === "}" || text[at] === "]") break;
      const name = opening === "{" ? JSON.parse(skipString()) : String(index);
      if (opening === "{") {
        skip(blank);
        at += 1;
        occursTwice ||= names.has(name);
        names.add(name);
        differs ||= isIndex.test(name) || name === "__proto__";
      }
      const member = visit(container?.[name]);
      differs ||= member === "differs";
      isAmbiguous ||= member === "ambiguous";
    }
    at += 1;
    if (occursTwice) found.length = foundBefore;
    if (occursTwice || isAmbiguous) return "ambiguous";
    if (!differs) return "same";
    if (container) found.push([container, text.slice(from, at)]);
    return "differs";
  }

  visit(root);
  return found;
}
