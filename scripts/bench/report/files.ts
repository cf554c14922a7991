import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { AgainstMeasurements } from "../against/measure-against.ts";
import type { GatewayMeasurements } from "../gateway/measurements.ts";
import type { BusyDayMeasurements } from "../growth/busy-day.ts";
import type { GrowthMeasurements } from "../growth/growth.ts";
import type { Options, Plan } from "../options.ts";
import type { ReportMeasurements } from "../reports/reports.ts";
import type { PageMeasurements } from "../web/pages.ts";
import type { Machine } from "./machine.ts";
import { type Row, verdictOf } from "./rows.ts";
import { replaceMarked } from "./tables.ts";

export type Results = {
  machine: Machine;
  options: Options;
  plan: Plan;
  complaints: readonly string[];
  rows: readonly Row[];
  gateway: GatewayMeasurements | undefined;
  against: AgainstMeasurements | undefined;
  reports: ReportMeasurements | undefined;
  pages: PageMeasurements | undefined;
  growth: GrowthMeasurements | undefined;
  busyDay: BusyDayMeasurements | undefined;
};

const directory = "bench-results";

/** Writes the results as JSON. @returns the file's path */
export async function writeResults(results: Results): Promise<string> {
  await mkdir(directory, { recursive: true });
  const { machine, options, rows, ...rest } = results;
  const file = path.join(directory, `${machine.takenAt.replaceAll(/[:.]/g, "-")}-${machine.commit || "unknown"}.json`);
  const judged = rows.map((row) => ({ ...row, verdict: verdictOf(row) }));
  const chosen = { ...options, parts: [...options.parts] };
  await writeFile(file, `${JSON.stringify({ machine, options: chosen, rows: judged, ...rest }, null, 1)}\n`);
  return file;
}

/** Replaces the bench's tables in a document. */
export async function writeDocument(file: string, text: string): Promise<void> {
  await writeFile(file, replaceMarked(await readFile(file, "utf8"), text));
}
