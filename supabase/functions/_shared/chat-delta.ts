import { isObject } from "./json.ts";

type Members = Record<string, unknown>;

/**
 * How many of a list's last entries are searched for the entry that a delta continues. The limit prevents a hostile
 * stream from causing a quadratic search.
 */
const maxOpenEntries = 128;

/** Members that are always sent complete. Some providers repeat them in every chunk. */
const unsplitMembers: ReadonlySet<string> = new Set(["id", "type", "role", "format", "signature", "thought_signature"]);

/** Merges the next delta of a streamed message into `message`, including members that OpenAI doesn't define. */
export function mergeDelta(message: Members, delta: Members): void {
  for (const [name, value] of Object.entries(delta)) {
    if (name === "__proto__" || value === null || value === undefined) continue;
    const before = Object.hasOwn(message, name) ? message[name] : undefined;
    if (Array.isArray(value)) message[name] = mergeList(Array.isArray(before) ? before : [], value);
    else if (isObject(value)) message[name] = mergeInto(isObject(before) ? before : {}, value);
    else message[name] = mergeText(name, before, value);
  }
}

/** Returns a merged message in its non-streamed form. */
export function wholeMessage(merged: Members): Members {
  const { content, tool_calls: calls, ...rest } = merged;
  const tool_calls = (Array.isArray(calls) ? calls.filter(isObject) : [])
    .toSorted((one, other) => placeOf(one) - placeOf(other))
    .map(({ index, ...call }) => wholeCall(call));
  const called = tool_calls.length > 0;
  return {
    role: "assistant",
    content: called ? content || null : (content ?? null),
    ...rest,
    ...(called ? { tool_calls } : {}),
  };
}

/**
 * Returns the index of a tool call, or 0 if it is not a number or text. Converting an object to a number can throw.
 */
function placeOf({ index }: Members): number {
  return typeof index === "number" || typeof index === "string" ? Number(index) || 0 : 0;
}

function wholeCall({ id = "", function: called, ...rest }: Members): Members {
  return { id, type: "function", ...rest, function: { name: "", arguments: "", ...(isObject(called) ? called : {}) } };
}

function mergeInto(target: Members, delta: Members): Members {
  mergeDelta(target, delta);
  return target;
}

function mergeList(list: unknown[], more: unknown[]): unknown[] {
  for (const each of more) {
    if (!isObject(each)) {
      list.push(each);
      continue;
    }
    const entry = list.slice(-maxOpenEntries).findLast((known) => isObject(known) && isContinuation(known, each));
    if (isObject(entry)) mergeDelta(entry, each);
    else list.push(mergeInto({}, each));
  }
  return list;
}

/**
 * Returns whether an entry of a list continues a known entry. The index of a tool call is reliable here, because the
 * gateway gives each call its own.
 */
function isContinuation(known: Members, entry: Members): boolean {
  if (entry.id && known.id && entry.id !== known.id) return false;
  return entry.index === undefined ? Boolean(entry.id && known.id) : entry.index === known.index;
}

function mergeText(name: string, before: unknown, value: unknown): unknown {
  if (typeof before !== "string" || typeof value !== "string" || name === "index") return value;
  if (unsplitMembers.has(name)) return value || before;
  // Some providers send a function's name in pieces, and others repeat it in every chunk.
  return name === "name" && before === value ? before : before + value;
}
