import type pg from "pg";
import { z } from "zod";
import { loadRuns } from "../../load/load-runs.ts";
import { createLoadTenant } from "../../load/load-tenant.ts";
import type { Stack } from "../../test/stack.ts";
import type { Plan } from "../options.ts";
import type { Progress } from "../progress.ts";
import type { Row } from "../report/rows.ts";
import { median, quantile } from "../statistics.ts";
import type { Readings } from "../web/readings.ts";

export type ReportMeasurements = {
  runs: number;
  days: number;
  /** `GET /v1/usage`, read to the last byte. */
  usage: { tookMs: number[]; rows: number; bytes: number };
  /** The studio's overview page, read to the last byte, or why it couldn't be read. */
  overview: Readings | { missing: string };
};

const usageAnswer = z.object({ rows: z.array(z.unknown()) });

/** Fills a workspace with a year of runs and times the reports on them. */
export async function measureReports(options: {
  stack: Stack;
  client: pg.Client;
  plan: Plan;
  progress: Progress;
  signal: AbortSignal;
  /** Reads a page as the demo user, who owns the workspace. */
  readPage: (path: string, readings: number) => Promise<Readings>;
}): Promise<ReportMeasurements> {
  const { stack, client, progress, signal, readPage } = options;
  const { runs, days, readings } = options.plan.reports;
  const total = runs.toLocaleString("en");
  progress.begin(`${total} runs over ${days} days`);
  const tenant = await createLoadTenant(client);
  const loaded = await loadRuns(client, {
    tenant,
    runs,
    days,
    onRuns: (done) => progress.show(`${done.toLocaleString("en")} of ${total} runs`),
    onDays: (done) => progress.show(`${done} of ${days} days summed`),
    goOn: () => !signal.aborted,
  });
  progress.begin("usage report");
  const usage = await readUsage(stack, { ...tenant, readings });
  progress.begin("studio overview");
  const overview = await readPage(`/workspaces/${tenant.workspaceId}/ai?range=365d`, readings).catch(
    (error: Error) => ({ missing: error.message }),
  );
  return { runs: loaded, days, usage, overview };
}

async function readUsage(
  stack: Stack,
  { workspaceId, key, readings }: { workspaceId: string; key: string; readings: number },
): Promise<ReportMeasurements["usage"]> {
  const functions = stack.services.find(({ name }) => name === "functions");
  const url = `http://127.0.0.1:${functions?.port}/usage`;
  const headers = { authorization: `Bearer ${key}`, "x-platform-workspace-id": workspaceId };
  const warmUp = 2;
  const tookMs: number[] = [];
  let text = "";
  for (let reading = 0; reading < warmUp + readings; reading += 1) {
    const startedAt = performance.now();
    const response = await fetch(url, { headers });
    text = await response.text();
    if (!response.ok) throw new Error(`/v1/usage answered ${response.status}: ${text.slice(0, 200)}`);
    if (reading >= warmUp) tookMs.push(performance.now() - startedAt);
  }
  return { tookMs, rows: usageAnswer.parse(JSON.parse(text)).rows.length, bytes: text.length };
}

/** Returns the report figures with their goals. */
export function reportRows({ runs, days, usage, overview }: ReportMeasurements): Row[] {
  const over = `${runs.toLocaleString("en")} runs of ${days} days`;
  const row = { unit: "ms", digits: 0, goal: { atMost: 300 } };
  const slowest = (tookMs: readonly number[]) => quantile(tookMs, 1).toFixed(0);
  return [
    {
      ...row,
      id: "usage",
      what: `GET /v1/usage over ${over}, median`,
      samples: [median(usage.tookMs)],
      note: `slowest ${slowest(usage.tookMs)}; ${usage.rows.toLocaleString("en")} rows, ${(usage.bytes / 1e6).toFixed(1)} MB`,
    },
    {
      ...row,
      id: "studio-overview",
      what: `studio overview over ${over}, median`,
      samples: "missing" in overview ? [] : [median(overview.inAllMs)],
      note:
        "missing" in overview
          ? overview.missing
          : `slowest ${slowest(overview.inAllMs)}; the whole page, of which ${median(overview.ownMs).toFixed(0)} are ours`,
    },
  ];
}
