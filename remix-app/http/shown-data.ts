/** Under which data stands that goes into a page and no further; the build has a copy of this module of its own. */
const shown = Symbol.for("gatehouse.shown");

/**
 * Keeps what a loader found from being encoded for scripts, which Remix does for every page, also where none runs: of
 * its object nothing can be seen but by {@link revealIn}. What has a status or headers of its own stays as it is.
 */
export function hideData(found: unknown): unknown {
  if (typeof found !== "object" || found === null) return found;
  const answers = found instanceof Response || ("type" in found && found.type === "DataWithResponseInit");
  return answers ? found : { [shown]: found };
}

/** Puts back what was hidden among the data of a page's routes, which it changes. */
export function revealIn(loaderData: Record<string, unknown>): void {
  for (const [routeId, data] of Object.entries(loaderData)) {
    if (typeof data === "object" && data !== null && shown in data) loaderData[routeId] = data[shown];
  }
}
