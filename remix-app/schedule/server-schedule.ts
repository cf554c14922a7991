import { costSources } from "../books/importer/cost-sources.ts";
import type { Env } from "../config/env.server.ts";
import { mailOutages, warnOfBudgets, warnOfCredits } from "./alert-task.ts";
import { importProviderCosts } from "./import-provider-costs.ts";
import { rotateSigningKeys } from "./rotate-signing-keys.ts";
import { type CountTask, createSchedule, type Schedule } from "./schedule.ts";
import { sendDueMails } from "./send-due-mails.ts";
import { sendLogoutNotices } from "./send-logout-notices.ts";
import { createUpkeepTasks } from "./upkeep.ts";

/** Creates the schedule of a server, with the tasks that its settings allow. */
export function createServerSchedule(env: Env, count?: CountTask): Schedule {
  return createSchedule({
    tasks: [
      ...createUpkeepTasks(env),
      ...(costSources(env).length > 0 ? [importProviderCosts(env)] : []),
      ...(env.APP_SESSION_SECRET ? [rotateSigningKeys(env), sendLogoutNotices(env)] : []),
      ...(env.SMTP_URL ? [sendDueMails(env), warnOfBudgets(env), warnOfCredits(env), mailOutages(env)] : []),
    ],
    count,
  });
}
