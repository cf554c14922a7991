/** In characters; the maximum length of an email address. */
export const maxTermLength = 320;

/** Returns the search term for a list: the trimmed `q` of its URL, or an empty string. */
export function searchTerm({ url }: { url: string }): string {
  return (new URL(url).searchParams.get("q") ?? "").replaceAll("\0", "").trim().slice(0, maxTermLength);
}

/**
 * Builds the query of another view of a page: the current parameters named in `keep`, then those of `add`.
 * @returns the query with its question mark, or "?" without parameters
 */
export function buildSearch(
  search: string,
  { keep = [], add = {} }: { keep?: readonly string[]; add?: Readonly<Record<string, string>> },
): string {
  const current = [...new URLSearchParams(search)].filter(([name]) => keep.includes(name));
  return `?${new URLSearchParams([...current, ...Object.entries(add)])}`;
}
