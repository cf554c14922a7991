/**
 * Returns the scalar values of `platform` as `x-platform-*` headers, for answers that aren't JSON. `runLimitHeaders` has
 * those of the envelope.
 */
export function platformHeaders(platform: Record<string, unknown>): Record<string, string> {
  const { steps, usage, envelope, ...single } = platform;
  const values = { ...single, ...(usage as Record<string, unknown>) };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      `x-platform-${name.replaceAll("_", "-")}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
}
