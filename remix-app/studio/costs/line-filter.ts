/** The providers that a reconciliation lists: all, or only those with a line that needs action. */
export type LineFilter = "all" | "action";

/** The choices of the query parameter `show`. The default has no value, so that it is not in the URL. */
export const lineFilters: readonly { value: string; label: string }[] = [
  { value: "", label: "All" },
  { value: "action", label: "Needs action" },
];

/** Reads the query parameter `show`. Lists all providers for any value but `action`. */
export function readLineFilter(url: URL): LineFilter {
  return url.searchParams.get("show") === "action" ? "action" : "all";
}
