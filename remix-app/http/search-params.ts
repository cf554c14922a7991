/** Characters; as long as an email may be. */
export const maxTermLength = 320;

/** What a list is searched for: `q` of its address, trimmed; empty where there is none. */
export function searchTerm({ url }: { url: string }): string {
  return (new URL(url).searchParams.get("q") ?? "").replaceAll("\0", "").trim().slice(0, maxTermLength);
}

/**
 * The search of another view of a page: the named parameters of this one, and others.
 * @returns with its question mark; "?" where there are none, which is the page without a search
 */
export function keptSearch(
  search: string,
  { keep = [], add = {} }: { keep?: readonly string[]; add?: Readonly<Record<string, string>> },
): string {
  const kept = [...new URLSearchParams(search)].filter(([name]) => keep.includes(name));
  return `?${new URLSearchParams([...kept, ...Object.entries(add)])}`;
}
