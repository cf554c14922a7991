/** What `platform` says of a run, for answers that have no room for it: single values as `x-platform-*` headers. */
export function platformHeaders(platform: Record<string, unknown>): Record<string, string> {
  const { steps, usage, ...single } = platform;
  const values = { ...single, ...(usage as Record<string, unknown>) };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      `x-platform-${name.replaceAll("_", "-")}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
}
