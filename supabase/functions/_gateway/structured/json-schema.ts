import { type Check, Effort, type Place, UnsupportedSchema } from "./check.ts";
import { type Checks, keywords } from "./keywords.ts";
import { createPatterns } from "./pattern.ts";

/** Standard keywords that aren't supported here. Ignoring them would check a different schema. */
const beyond = [
  "$dynamicRef",
  "$dynamicAnchor",
  "$recursiveRef",
  "$recursiveAnchor",
  "$vocabulary",
  "additionalItems",
  "dependencies",
  "unevaluatedItems",
  "unevaluatedProperties",
];

/**
 * Compiles a JSON Schema (2020-12) whose references stay within it. The schema is interpreted, never turned into code,
 * and is checked in bounded time, including patterns: existing validators don't guarantee that, and neither schema nor
 * answer can be trusted. `format` and keywords unknown to the standard are annotations.
 * @returns whether a value conforms; undefined if the check would take too long
 * @throws UnsupportedSchema
 */
export function compileSchema(root: unknown): (value: unknown) => boolean | undefined {
  const known = new Map<object, Check>();
  const compilePattern = createPatterns();

  function compile(schema: unknown, pointer: string): Check {
    if (typeof schema === "boolean") return () => schema;
    if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
      throw new UnsupportedSchema(`${pointer} is not a schema.`);
    }
    const before = known.get(schema);
    if (before) return before;
    const checks: Check[] = [];
    // Registered before its keywords are compiled, so that a schema that refers to itself finds this check.
    const check: Check = (value, effort) => {
      effort.spend(1 + checks.length);
      return checks.every((each) => effort.descend(each, value));
    };
    known.set(schema, check);
    for (const [keyword, given] of Object.entries(schema)) {
      const at = `${pointer}/${keyword}`;
      if (beyond.includes(keyword)) throw new UnsupportedSchema(`${at} is not supported.`);
      if (!Object.hasOwn(keywords, keyword)) continue;
      const place: Place = { schema: schema as Record<string, unknown>, pointer: at, compile, resolve, compilePattern };
      const made = keywords[keyword as keyof Checks](given, place);
      if (made) checks.push(made);
    }
    return check;
  }

  function resolve(reference: string, pointer: string): Check {
    return compile(find(root, reference, pointer), reference);
  }

  const check = compileWithinStack(() => compile(root, "#"));
  return (value) => {
    try {
      return check(value, new Effort());
    } catch {
      // The check takes too long, or the answer is nested too deeply. An answer that has been paid for is returned
      // anyway.
      return undefined;
    }
  };
}

/** Returns the target of a reference within the schema (RFC 6901, 6). */
function find(root: unknown, reference: string, pointer: string): unknown {
  if (!/^#(?:\/|$)/.test(reference)) throw new UnsupportedSchema(`${pointer} leads out of the schema.`);
  let target: unknown = root;
  for (const token of reference.split("/").slice(1)) {
    const name = unescapeToken(token);
    const holder = typeof target === "object" && target !== null ? (target as Record<string, unknown>) : {};
    if (name === undefined || !Object.hasOwn(holder, name)) {
      throw new UnsupportedSchema(`${pointer} points at nothing.`);
    }
    target = holder[name];
  }
  return target;
}

function unescapeToken(token: string): string | undefined {
  try {
    return decodeURIComponent(token).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return undefined;
  }
}

/** Compiles a schema, and rejects one whose references overflow the stack. */
function compileWithinStack(work: () => Check): Check {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw new UnsupportedSchema("The schema refers to itself too deeply.");
    throw error;
  }
}
