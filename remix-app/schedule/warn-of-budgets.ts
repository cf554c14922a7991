import type { Env } from "../config/env.server.ts";
import { type BudgetAlert, budgetAlertMail } from "../studio/budgets/budget-alert-mail.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

/** How late a warning may be; the mails then go out with those that are tried again. */
const sweepIntervalMs = 60_000;
const alertsAtOnce = 100;

/**
 * Warns those who answer for a budget at 50, 80 and 100% of it, and when it refuses calls before that. The database
 * notes each crossing once, and keeps its mails for sending in the statement that marks it as told; what dies in between
 * is found by the next sweep.
 */
export function warnOfBudgets(env: Env): ScheduledTask {
  return {
    name: "warn-of-budgets",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const database = createServiceClient(env).schema("ai");
      const { data, error } = await database.rpc("sweep_budget_alerts", { most: alertsAtOnce }).abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
      const failures: string[] = [];
      for (const alert of data as BudgetAlert[]) {
        if (signal.aborted) return;
        const { subject, text } = budgetAlertMail(alert, { origin: env.BASE_URL });
        const posted = await database
          .rpc("queue_budget_alert_mails", { alert, subject, body: text })
          .abortSignal(signal);
        // One that cannot be posted must not keep back the others.
        if (posted.error) failures.push(`${posted.error.code} ${posted.error.message}`);
      }
      if (failures.length > 0) throw new Error(failures.join("; "));
    },
  };
}
