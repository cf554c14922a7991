/** Characters; as long as an email may be. */
export const maxTermLength = 320;

/** What a page of the console is searched for: `q` of its address, trimmed; empty where there is none. */
export function searchTerm({ url }: Request): string {
  return (new URL(url).searchParams.get("q") ?? "").replaceAll("\0", "").trim().slice(0, maxTermLength);
}
