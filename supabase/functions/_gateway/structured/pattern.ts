import { RE2JS } from "re2js";
import { type Effort, type Matcher, UnsupportedSchema } from "./check.ts";

/** How many steps of the regular expression matcher count as one step of a check. */
const stepsPerEffort = 50;
/** Maximum total weight of a schema's patterns. The weight is their length with counted repetitions written out. */
const maxWeight = 30_000;
const overhead = 20;

/**
 * Creates a compiler for a schema's regular expressions. Patterns are limited in size and match in linear time (RE2),
 * because backtracking or a very large pattern could block the isolate.
 * @returns a function that throws UnsupportedSchema if a pattern is invalid, uses lookaround or backreferences, or
 * exceeds the limit for all patterns of the schema
 */
export function createPatterns(): (pattern: string, pointer: string) => Matcher {
  const known = new Map<string, Matcher>();
  let weight = 0;
  return (pattern, pointer) => {
    const before = known.get(pattern);
    if (before) return before;
    weight += estimatePatternWeight(pattern);
    if (weight > maxWeight) throw new UnsupportedSchema(`${pointer} is one regular expression too many, or too large.`);
    const matcher = compile(pattern, pointer);
    known.set(pattern, matcher);
    return matcher;
  };
}

/**
 * Estimates a pattern's length with counted repetitions written out. Multiplies the largest repetition of a group by
 * the largest other repetition, because a group may contain other repetitions.
 */
function estimatePatternWeight(pattern: string): number {
  let [single, group] = [1, 1];
  for (const [, closing, min, max] of pattern.matchAll(/(\)?)\{(\d+)(?:,(\d*))?\}/g)) {
    const times = Math.max(Number(min), Number(max ?? 0));
    if (closing) group = Math.max(group, times);
    else single = Math.max(single, times);
  }
  return (pattern.length + overhead) * single * group;
}

function compile(pattern: string, pointer: string): Matcher {
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(RE2JS.translateRegExp(pattern));
  } catch {
    throw new UnsupportedSchema(`${pointer} holds a regular expression that is not supported.`);
  }
  const width = expression.programSize();
  return (text: string, effort: Effort) => {
    effort.spend(1 + ((text.length + 1) * width) / stepsPerEffort);
    return expression.matcher(text).find();
  };
}
