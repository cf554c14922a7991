import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { GatewayMeasurements } from "../gateway/measurements.ts";
import type { Options, Plan } from "../options.ts";
import type { ReportMeasurements } from "../reports/reports.ts";
import type { PageMeasurements } from "../web/pages.ts";
import { gatewayFigures } from "./figures.ts";
import type { Machine } from "./machine.ts";
import { renderPage } from "./page.ts";
import { type Row, verdictOf } from "./rows.ts";

/** All that one run has found. */
export type Results = {
  machine: Machine;
  options: Options;
  plan: Plan;
  complaints: readonly string[];
  rows: readonly Row[];
  gateway: GatewayMeasurements | undefined;
  reports: ReportMeasurements | undefined;
  pages: PageMeasurements | undefined;
};

const directory = "bench-results";

/** Writes the results as JSON, and as a page. @returns the files' paths */
export async function writeResults(results: Results): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const { machine, options, rows, ...rest } = results;
  const name = `${machine.takenAt.replaceAll(/[:.]/g, "-")}-${machine.commit || "unknown"}`;
  const json = path.join(directory, `${name}.json`);
  const judged = rows.map((row) => ({ ...row, verdict: verdictOf(row) }));
  const chosen = { ...options, parts: [...options.parts] };
  await writeFile(json, `${JSON.stringify({ machine, options: chosen, rows: judged, ...rest }, null, 1)}\n`);
  const page = path.join(directory, `${name}.html`);
  const figures = results.gateway ? gatewayFigures(results.gateway, results.plan.openLoop) : [];
  await writeFile(page, renderPage({ machine, rows, figures, complaints: results.complaints }));
  return [json, page];
}
