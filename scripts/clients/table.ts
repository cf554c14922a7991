import { type Check, type Feature, features } from "./checks.ts";

/** The result of running a client. */
export type Row = { name: string; version: string; checks: Check[]; lacks?: readonly Feature[]; skipped?: string };

/** Returns the features with a failed check. */
export function failedFeatures({ checks }: Row): Feature[] {
  const failed = checks.filter(({ ok }) => !ok);
  return features.filter((each) => failed.some(({ feature }) => feature === undefined || feature === each));
}

/** Renders a table of clients by features, followed by the number of checks that passed and failed. */
export function renderTable(rows: readonly Row[]): string {
  const lines = rows.map((row) => {
    const failed = failedFeatures(row);
    const cells = features.map((feature) => {
      if (row.skipped || row.lacks?.includes(feature)) return "skipped";
      return failed.includes(feature) ? "failed" : "passed";
    });
    return [row.name, row.version, ...cells];
  });
  const table = [["client", "version", ...features], ...lines];
  const widths = [22, 12, ...features.map(() => 12)];
  const checks = rows.flatMap((row) => row.checks);
  const passed = checks.filter(({ ok }) => ok).length;
  const skipped = rows.flatMap((row) => (row.skipped ? [`${row.name} was skipped: ${row.skipped}`] : []));
  return [
    ...table.map((line) =>
      line
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join("")
        .trimEnd(),
    ),
    "",
    ...skipped,
    `${passed} passed, ${checks.length - passed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`,
  ].join("\n");
}

/** Lists the features that fail in the newest version but not in the pinned version, one per line. */
export function whatBroke(newest: Row, pinned: Row): string[] {
  const before = failedFeatures(pinned);
  return failedFeatures(newest)
    .filter((feature) => !before.includes(feature))
    .map((feature) => `${newest.name} ${pinned.version} → ${newest.version}: ${feature}`);
}
