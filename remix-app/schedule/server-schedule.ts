import type { Env } from "../config/env.server.ts";
import { rotateSigningKeys } from "./rotate-signing-keys.ts";
import { type CountTask, createSchedule, type Schedule } from "./schedule.ts";
import { sendDueMails } from "./send-due-mails.ts";
import { sendLogoutNotices } from "./send-logout-notices.ts";
import { createUpkeepTasks, warnOfBudgets, warnOfCredits } from "./upkeep.ts";

/** Creates the schedule of a server, with the tasks that its settings allow. */
export function createServerSchedule(env: Env, count?: CountTask): Schedule {
  return createSchedule({
    tasks: [
      ...createUpkeepTasks(env),
      ...(env.APP_SESSION_SECRET ? [rotateSigningKeys(env), sendLogoutNotices(env)] : []),
      ...(env.SMTP_URL ? [sendDueMails(env), warnOfBudgets(env), warnOfCredits(env)] : []),
    ],
    count,
  });
}
