/** No answer of a model nests deeper; `JSON.stringify` overflows the stack some thousand levels deeper. */
const maxDepth = 500;

/**
 * Whether JSON nests beyond all measure, so that it cannot be written anew.
 * @param text it, as it came: a short one cannot, and is not looked through
 */
export function nestsTooDeeply(value: unknown, text: string): boolean {
  if (text.length < 2 * maxDepth) return false;
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxDepth) return true;
    const next: unknown[] = [];
    for (const each of level) {
      if (typeof each !== "object" || each === null) continue;
      const members: unknown[] = Array.isArray(each) ? each : Object.values(each);
      for (const member of members) if (typeof member === "object") next.push(member);
    }
    level = next;
  }
  return false;
}
