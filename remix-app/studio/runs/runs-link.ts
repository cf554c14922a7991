/**
 * Returns the address of the list of runs with filters.
 * @param path the list's path
 * @param query the list's query parameters (run-query.ts); undefined ones are left out
 */
export function linkToRuns(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  return `${path}?${new URLSearchParams(given)}`;
}
