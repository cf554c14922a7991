import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { type JsonMember, type JsonNode, parseJson, skipBlanksAndComments } from "./json-syntax.ts";

/** A value to set at a path of object keys. */
export interface JsonEdit {
  path: readonly string[];
  value: unknown;
}

/**
 * How to undo an edit: what it wrote, how many objects along its path already existed, and what it replaced, if
 * anything.
 */
const undoStep = z.object({
  path: z.array(z.string()),
  value: z.unknown(),
  existing: z.number(),
  before: z.unknown().optional(),
});
export const jsonUndo = z.array(undoStep);
export type JsonUndo = z.infer<typeof jsonUndo>;

/**
 * Sets values in a JSON text and keeps everything else as it is written, including comments.
 * @param options.previous how to undo edits that an earlier call made to this text; the result then undoes both calls
 * @throws SyntaxError if the text is not JSON, or a path leads through something other than an object
 */
export function applyJsonEdits(
  source: string,
  { edits, previous = [] }: { edits: readonly JsonEdit[]; previous?: JsonUndo },
): { text: string; undo: JsonUndo } {
  // Earlier edits are undone first, so that a value of ours is never recorded as one of the user's.
  let text = undoJsonEdits(source, previous);
  const undo = edits.map(({ path, value }) => {
    const before = findNode(text, path);
    const existing = path.findIndex((_, depth) => !findNode(text, path.slice(0, depth + 1)));
    text = setMember(text, { path, value });
    return { path: [...path], value, existing, ...(before !== undefined && { before: before.value }) };
  });
  const unchanged = edits.every(({ path, value }) => isDeepStrictEqual(findNode(source, path)?.value, value));
  return { text: unchanged && previous.length === edits.length ? source : text, undo };
}

/**
 * Undoes edits, unless somebody has changed the value since.
 * @throws SyntaxError in the same cases as {@link applyJsonEdits}
 */
export function undoJsonEdits(source: string, undo: JsonUndo): string {
  let text = source;
  for (const step of [...undo].reverse()) {
    const found = findNode(text, step.path);
    if (!found || !isDeepStrictEqual(found.value, step.value)) continue;
    text = "before" in step ? setMember(text, { path: step.path, value: step.before }) : removeMember(text, step);
  }
  return text;
}

function rootOf(source: string): JsonNode {
  const root = parseJson(source.trim() === "" ? "{}" : source);
  if (!root.members) throw new SyntaxError("the file is not a JSON object");
  return root;
}

function findNode(source: string, path: readonly string[]): JsonNode | undefined {
  return path.reduce<JsonNode | undefined>((node, key) => memberOf(node, key)?.node, rootOf(source));
}

/** If several members have the same name, the last one counts, as in JSON.parse. */
function memberOf(node: JsonNode | undefined, key: string): JsonMember | undefined {
  return node?.members?.findLast((member) => member.key === key);
}

function setMember(source: string, { path, value }: JsonEdit): string {
  const text = source.trim() === "" ? "{}\n" : source;
  let parent = rootOf(text);
  for (const [depth, key] of path.entries()) {
    const found = memberOf(parent, key);
    const last = depth === path.length - 1;
    if (!found) {
      const rest = path.slice(depth + 1).reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);
      return insertMember(text, { parent, key, value: rest, depth: depth + 1 });
    }
    if (last) {
      const { start, end } = found.node;
      return text.slice(0, start) + serialize(value, { text, depth: depth + 1 }) + text.slice(end);
    }
    if (!found.node.members) throw new SyntaxError(`${path.slice(0, depth + 1).join(".")} is not an object`);
    parent = found.node;
  }
  return text;
}

function insertMember(
  text: string,
  { parent, key, value, depth }: { parent: JsonNode; key: string; value: unknown; depth: number },
): string {
  const indent = indentOf(text);
  const member = `${JSON.stringify(key)}: ${serialize(value, { text, depth })}`;
  const last = parent.members?.at(-1);
  const line = `\n${indent.repeat(depth)}`;
  if (!last) {
    const comments = text.slice(0, parent.end - 1).trimEnd();
    return `${comments}${line}${member}\n${indent.repeat(depth - 1)}${text.slice(parent.end - 1)}`;
  }
  const { end } = last.node;
  const comma = end + getMatchLength(/\s*,/y, { text, at: end });
  const place = comma + getMatchLength(/[ \t]*(?:\/\/[^\n]*|\/\*[^\n]*\*\/[ \t]*)(?=\r?\n)/y, { text, at: comma });
  const hasComma = comma > end;
  const before = `${text.slice(0, end)}${hasComma ? "" : ","}${text.slice(end, place)}`;
  return `${before}${line}${member}${hasComma ? "," : ""}${text.slice(place)}`;
}

/** Returns the length of the match of a sticky pattern at a position. */
function getMatchLength(pattern: RegExp, { text, at }: { text: string; at: number }): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? 0;
}

/**
 * Removes a member and its comma. Also removes each enclosing object that the edit created, if nothing else is in it.
 */
function removeMember(source: string, { path, existing }: { path: readonly string[]; existing: number }): string {
  const parent = findNode(source, path.slice(0, -1));
  const members = parent?.members ?? [];
  const place = members.findLastIndex(({ key }) => key === path.at(-1));
  const member = members[place];
  if (!parent || !member) return source;
  if (members.length === 1 && path.length - 1 > existing) {
    return removeMember(source, { path: path.slice(0, -1), existing });
  }
  const previous = members[place - 1];
  const comma = commaAfter(source, member.node.end);
  const rest = source.slice(member.node.end, comma ?? undefined) + (comma === undefined ? "" : source.slice(comma + 1));
  const before = source.slice(0, member.start).trimEnd();
  // Keeps a line break, so that the text that follows does not become part of a line comment.
  const needsBreak = /\/\/[^\n]*$/.test(before) && !/^[ \t]*\r?\n/.test(rest);
  const remaining = needsBreak ? source.slice(0, member.start) + rest.trimStart() : before + rest;
  if (members.length === 1) return isBlankObject(remaining, parent.start) ? clearObject(source, parent) : remaining;
  const dangling = previous && comma === undefined ? commaAfter(source, previous.node.end) : undefined;
  return dangling === undefined ? remaining : remaining.slice(0, dangling) + remaining.slice(dangling + 1);
}

/** Returns the position of the comma after a member, skipping blanks and comments; undefined if there is none. */
function commaAfter(text: string, end: number): number | undefined {
  const at = skipBlanksAndComments(text, end);
  return text[at] === "," ? at : undefined;
}

function clearObject(text: string, { start, end }: JsonNode): string {
  return `${text.slice(0, start)}{}${text.slice(end)}`;
}

function isBlankObject(text: string, start: number): boolean {
  return getMatchLength(/\{\s*\}/y, { text, at: start }) > 0;
}

function serialize(value: unknown, { text, depth }: { text: string; depth: number }): string {
  const indent = indentOf(text);
  return JSON.stringify(value, null, indent).replaceAll("\n", `\n${indent.repeat(depth)}`);
}

/** Returns the indentation of the first indented line, or two spaces by default. */
function indentOf(text: string): string {
  return /\n([ \t]+)"/.exec(text)?.[1] ?? "  ";
}
