import { isObject } from "../../_shared/json.ts";
import type { Effort } from "./check.ts";

/**
 * Returns a canonical JSON text, in which equal values have equal texts: members are sorted, 1.0 is 1, and -0 is 0.
 */
export function canonicalize(value: unknown, effort?: Effort): string {
  effort?.spend(typeof value === "string" ? 1 + value.length / 64 : 1);
  if (Array.isArray(value)) return `[${value.map((each) => canonicalize(each, effort)).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalize(value[name], effort)}`).join()}}`;
}
