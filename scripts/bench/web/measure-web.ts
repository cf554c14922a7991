import type pg from "pg";
import type { Stack } from "../../test/stack.ts";
import { type GrowthMeasurements, measureGrowth } from "../growth/growth.ts";
import type { KeptGrowth } from "../growth/kept-growth.ts";
import { timePages } from "../growth/pages.ts";
import type { Plan } from "../options.ts";
import type { Progress } from "../progress.ts";
import { measureReports, type ReportMeasurements } from "../reports/reports.ts";
import { measurePages, type PageMeasurements, signIn } from "./pages.ts";
import { timeReads } from "./readings.ts";
import { startTracedWeb, type TracedWeb } from "./traced-web.ts";

type Given = { stack: Stack; stackFile: string; plan: Plan; progress: Progress; signal: AbortSignal };

/** Test helpers that keep a browser session. */
type Sessions = typeof import("../../test/keep-session.ts");

/** Measures pages on the bench's own web server. */
export async function measureWebPages(given: Given & { client: pg.Client }): Promise<PageMeasurements> {
  const { stack, client, plan, progress } = given;
  progress.begin("pages");
  return withTracedWeb(given, ({ web, expired, keepSession }) =>
    measurePages({ stack, client, web, readings: plan.pages, keepSession, expired }),
  );
}

/**
 * Measures how long reports take, and how long the studio's overview of the same runs takes for the workspace's owner.
 */
export async function measureWebReports(given: Given & { client: pg.Client }): Promise<ReportMeasurements> {
  const { stack } = given;
  const demo = stack.users.find(({ role }) => role === "user");
  if (!demo) throw new Error("The stack has no demo user.");
  return withTracedWeb(given, async ({ web, keepSession }) => {
    const cookie = await keepSession(await signIn(stack, demo));
    return measureReports({
      ...given,
      readPage: (path, readings) => timeReads(web, { path, cookie, readings, warmUp: Math.ceil(readings / 4) }),
    });
  });
}

/**
 * Measures how much longer operations take as data grows, and how long the pages of the largest workspace take for its
 * owner.
 */
export async function measureWebGrowth(
  given: Given & { client: pg.Client; kept: KeptGrowth },
): Promise<GrowthMeasurements> {
  const { stack, kept, plan } = given;
  const demo = stack.users.find(({ role }) => role === "user");
  if (!demo) throw new Error("The stack has no demo user.");
  return withTracedWeb(given, ({ web, keepSession }) =>
    measureGrowth({
      ...given,
      ...kept,
      factors: plan.growth,
      timePages: async (tenant) =>
        timePages(stack, {
          client: given.client,
          tenant,
          webUrl: web.url,
          cookie: await keepSession(await signIn(stack, demo)),
        }),
    }),
  );
}

async function withTracedWeb<T>(
  { stack, stackFile }: Pick<Given, "stack" | "stackFile">,
  work: (given: { web: TracedWeb } & Sessions) => Promise<T>,
): Promise<T> {
  // The imported module reads GATEHOUSE_STACK when it is loaded.
  process.env.GATEHOUSE_STACK = stackFile;
  const sessions = await import("../../test/keep-session.ts");
  const web = await startTracedWeb(stack, sessions.vaultSettings());
  try {
    return await work({ web, ...sessions });
  } finally {
    await web.stop();
  }
}
