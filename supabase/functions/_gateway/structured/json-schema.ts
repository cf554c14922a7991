import { isObject } from "../../_shared/json.ts";
import { type Check, Effort, type KeywordContext, UnsupportedSchema } from "./check.ts";
import { type Checks, keywords } from "./keywords.ts";
import { createPatterns } from "./pattern.ts";

/** Standard keywords that are not supported. Ignoring them would check a different schema. */
const unsupportedKeywords = [
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
 * Compiles a JSON Schema (2020-12) to a check, without generating code. References must stay within the schema. Every
 * check takes bounded time, including regular expressions, because neither the schema nor the answer can be trusted.
 * Existing validators don't guarantee this. `format` and keywords outside the standard are only annotations.
 * @returns a function that returns whether a value conforms, or undefined if the check would take too long
 * @throws UnsupportedSchema
 */
export function compileSchema(root: unknown): (value: unknown) => boolean | undefined {
  const known = new Map<object, Check>();
  const compilePattern = createPatterns();

  function compile(schema: unknown, pointer: string): Check {
    if (typeof schema === "boolean") return () => schema;
    if (!isObject(schema)) throw new UnsupportedSchema(`${pointer} is not a schema.`);
    const before = known.get(schema);
    if (before) return before;
    const checks: Check[] = [];
    // The check is registered before its keywords are compiled, so that a schema that refers to itself finds this
    // check.
    const check: Check = (value, effort) => {
      effort.spend(1 + checks.length);
      return checks.every((each) => effort.descend(each, value));
    };
    known.set(schema, check);
    for (const [keyword, given] of Object.entries(schema)) {
      const at = `${pointer}/${keyword}`;
      if (unsupportedKeywords.includes(keyword)) throw new UnsupportedSchema(`${at} is not supported.`);
      if (!Object.hasOwn(keywords, keyword)) continue;
      const place: KeywordContext = { schema, pointer: at, compile, resolve, compilePattern };
      const made = keywords[keyword as keyof Checks](given, place);
      if (made) checks.push(made);
    }
    return check;
  }

  function resolve(reference: string, pointer: string): Check {
    return compile(resolveReference(root, reference, pointer), reference);
  }

  const check = compileWithinStack(() => compile(root, "#"));
  return (value) => {
    try {
      return check(value, new Effort());
    } catch {
      // The check takes too long, or the answer is nested too deeply. The answer has been paid for, so it is returned
      // unchecked.
      return undefined;
    }
  };
}

/** Returns the subschema that a reference points to (RFC 6901, 6). */
function resolveReference(root: unknown, reference: string, pointer: string): unknown {
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

/** Compiles a schema. Rejects a schema whose references overflow the stack. */
function compileWithinStack(work: () => Check): Check {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw new UnsupportedSchema("The schema refers to itself too deeply.");
    throw error;
  }
}
