/**
 * Leaves what a loader reads to be waited for by its page, whose frame is drawn meanwhile (ui/later.tsx): for pages that
 * no script takes over. What the reading throws is answered as if the loader had thrown it, but for its headers: no
 * reading that may redirect is one to leave.
 */
export function later<Found>(reading: Promise<Found>): Promise<Found> {
  // Another loader may refuse the page before anybody waits for this one.
  reading.catch(() => {});
  return reading;
}

/** Whether something that a loader found is still being read. */
export function isLate(found: unknown): boolean {
  return isPlain(found) && Object.values(found).some((value) => value instanceof Promise);
}

/** What a loader found, with all of it there. */
export async function settled(found: unknown): Promise<unknown> {
  if (!isPlain(found) || !isLate(found)) return found;
  const entries = Object.entries(found).map(async ([name, value]) => [name, await value] as const);
  return Object.fromEntries(await Promise.all(entries));
}

function isPlain(found: unknown): found is object {
  return typeof found === "object" && found !== null && !(found instanceof Response);
}
