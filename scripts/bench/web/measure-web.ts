import type pg from "pg";
import type { Stack } from "../../test/stack.ts";
import type { Part, Plan } from "../options.ts";
import { OutOfTime, type Progress } from "../progress.ts";
import type { Row } from "../report/rows.ts";
import { measureReports, type ReportMeasurements, reportRows } from "../reports/reports.ts";
import { pageRows } from "./page-rows.ts";
import { measurePages, type PageMeasurements, signIn } from "./pages.ts";
import { timeReads } from "./readings.ts";
import { startTracedWeb } from "./traced-web.ts";

/** Measures pages and reports, as far as they are asked for and there is time. */
export async function measureWeb(options: {
  stack: Stack;
  stackFile: string;
  client: pg.Client;
  plan: Plan;
  parts: ReadonlySet<Part>;
  progress: Progress;
  complain: (text: string) => void;
}): Promise<{ rows: Row[]; reports?: ReportMeasurements; pages?: PageMeasurements }> {
  const { stack, stackFile, plan, parts, progress, complain } = options;
  if (!parts.has("reports") && !parts.has("web")) return { rows: [] };
  // What tests know of a browser's session; it reads the stack's description when it is loaded.
  process.env.GATEHOUSE_STACK = stackFile;
  const { expired, keepSession, vaultSettings } = await import("../../test/keep-session.ts");
  const web = await startTracedWeb(stack, vaultSettings());
  let pages: PageMeasurements | undefined;
  let reports: ReportMeasurements | undefined;
  try {
    if (parts.has("web")) {
      progress.begin("pages");
      pages = await measurePages({ stack, web, readings: plan.pages.readings, keepSession, expired });
    }
    if (parts.has("reports")) {
      const demo = stack.users.find(({ role }) => role === "user");
      if (!demo) throw new Error("The stack has no demo user.");
      const cookie = await keepSession(await signIn(stack, demo));
      const readPage = (path: string, readings: number) => timeReads(web, { path, cookie, readings });
      reports = await measureReports({ ...options, readPage });
    }
  } catch (error) {
    if (!(error instanceof OutOfTime)) throw error;
    complain(error.message);
  } finally {
    await web.stop();
  }
  return { rows: [...(reports ? reportRows(reports) : []), ...(pages ? pageRows(pages) : [])], reports, pages };
}
