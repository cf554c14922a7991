/**
 * No model nests an answer this deeply. `JSON.stringify` can serialize a few thousand more levels before the stack
 * overflows.
 */
const maxDepth = 500;

/**
 * Returns whether JSON is nested too deeply to be serialized again safely.
 * @param text the original JSON text. If it is too short to nest deeply, the value is not examined.
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
