/** Whether it is a browser that asks, to show the answer to somebody: scripts and programs want none of our pages. */
export function asksForPage({ headers }: Request): boolean {
  return headers.get("accept")?.includes("text/html") ?? false;
}
