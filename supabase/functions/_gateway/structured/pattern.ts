import { RE2JS } from "re2js";
import { type Effort, UnsupportedSchema } from "./check.ts";

/** Steps of the matcher that count as one of the check's. */
const stepsPerEffort = 50;

/**
 * Compiles a regular expression for matching in linear time (RE2): backtracking would let a pattern stop the isolate.
 * @throws UnsupportedSchema for what is none, and for looking around and back, which cannot be had in linear time
 */
export function compilePattern(pattern: string, pointer: string): (text: string, effort: Effort) => boolean {
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(RE2JS.translateRegExp(pattern));
  } catch {
    throw new UnsupportedSchema(`${pointer} holds a regular expression that is not supported.`);
  }
  const width = expression.programSize();
  return (text, effort) => {
    effort.spend(1 + ((text.length + 1) * width) / stepsPerEffort);
    return expression.matcher(text).find();
  };
}
