import { costSources } from "../books/importer/cost-sources.ts";
import { importReport } from "../books/importer/import-report.ts";
import type { Env } from "../config/env.server.ts";
import type { ScheduledTask } from "./schedule.ts";

/** How long an attempt that is due, or that a person requested, may wait. */
const intervalMs = 30_000;

/** Imports the daily costs of all providers whose key this server has, when their next attempt is due. */
export function importProviderCosts(env: Env): ScheduledTask {
  return {
    name: "import-provider-costs",
    intervalMs,
    async run(signal) {
      const attempts = costSources(env).map((source) => importReport(source, { env, signal }));
      const failed = (await Promise.allSettled(attempts)).find(({ status }) => status === "rejected");
      if (failed?.status === "rejected") throw failed.reason;
    },
  };
}
