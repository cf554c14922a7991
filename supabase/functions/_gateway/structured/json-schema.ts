import { type Check, Effort, type Place, UnsupportedSchema } from "./check.ts";
import { type Checks, keywords } from "./keywords.ts";
import { createPatterns } from "./pattern.ts";

/** What is in the standard, or was, and is not understood here: to pass over it would be to check something else. */
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
 * Compiles a JSON Schema (2020-12) whose references stay within it. It is interpreted, never made into code, and checks
 * in bounded time, patterns included: what validators there are do not, and both schema and answer are a stranger's.
 * `format` and keywords unknown to the standard are annotations.
 * @returns whether a value conforms; undefined where finding out would take too long
 * @throws UnsupportedSchema
 */
export function compileSchema(root: unknown): (value: unknown) => boolean | undefined {
  const known = new Map<object, Check>();
  const compilePattern = createPatterns();

  function compile(schema: unknown, pointer: string): Check {
    if (typeof schema === "boolean") return () => schema;
    if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
      throw new UnsupportedSchema(`${pointer} is no schema.`);
    }
    const before = known.get(schema);
    if (before) return before;
    const checks: Check[] = [];
    // A schema that refers to itself finds itself here.
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
      // Too long, or nested too deeply. Whatever it is, an answer that has been paid for is not lost to it.
      return undefined;
    }
  };
}

/** What a reference within the schema points at (RFC 6901, 6). */
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

/** References may go round half the schema before they end. */
function compileWithinStack(work: () => Check): Check {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw new UnsupportedSchema("The schema refers to itself too deeply.");
    throw error;
  }
}
