import type { Env } from "../config/env.server.ts";
import { type Mail, type MailSite, mailSite } from "../mail/mail-body.ts";
import { type BudgetAlert, budgetAlertMail } from "../studio/budgets/budget-alert-mail.ts";
import { type CreditAlert, creditAlertMail } from "../studio/credits/credit-alert-mail.ts";
import { type OutageAlert, outageMail } from "../studio/providers/outage-mail.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

/** How long a warning may wait before its emails are queued. */
const sweepIntervalMs = 60_000;
/** Longer than the Data API's statement timeout. */
const timeoutMs = 10_000;
const maxAlerts = 100;

/**
 * Emails the people who manage a budget when spending reaches one of its thresholds, or when it refuses calls although it
 * is not fully spent. Emails the owner of an envelope when it refuses a call.
 */
export function warnOfBudgets(env: Env): ScheduledTask {
  return createAlertTask<BudgetAlert>(env, {
    name: "warn-of-budgets",
    sweep: ["sweep_budget_alerts", { most: maxAlerts, all_periods: true }],
    queue: "queue_budget_alert_mails",
    mailOf: budgetAlertMail,
  });
}

/** When a balance becomes low or is used up, warns the people who can act on it. */
export function warnOfCredits(env: Env): ScheduledTask {
  return createAlertTask<CreditAlert>(env, {
    name: "warn-of-credits",
    sweep: ["sweep_credit_alerts", { max_alerts: maxAlerts }],
    queue: "queue_credit_alert_mails",
    mailOf: creditAlertMail,
  });
}

/** Tells people of the console when a provider fails for a minute, and when it no longer does. */
export function mailOutages(env: Env): ScheduledTask {
  return createAlertTask<OutageAlert>(env, {
    name: "mail-outages",
    sweep: ["sweep_outage_mails", { max_mails: maxAlerts }],
    queue: "queue_outage_mails",
    mailOf: outageMail,
  });
}

/**
 * Queues the emails about crossed thresholds and outages. The database records each once. One statement queues the
 * emails and marks them as queued, so the next sweep retries failures.
 */
function createAlertTask<Alert>(
  env: Env,
  {
    name,
    sweep,
    queue,
    mailOf,
  }: {
    name: string;
    sweep: readonly [name: string, args: object];
    queue: string;
    mailOf: (alert: Alert, site: MailSite) => Omit<Mail, "to">;
  },
): ScheduledTask {
  const database = createServiceClient(env, { timeoutMs }).schema("ai");
  return {
    name,
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const { data, error } = await database.rpc(...sweep).abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
      const failures: string[] = [];
      for (const alert of data as Alert[]) {
        if (signal.aborted) return;
        const { subject, text } = mailOf(alert, mailSite(env));
        const queued = await database.rpc(queue, { alert, subject, body: text }).abortSignal(signal);
        // An email that cannot be queued must not block the others.
        if (queued.error) failures.push(`${queued.error.code} ${queued.error.message}`);
      }
      if (failures.length > 0) throw new Error(failures.join("; "));
    },
  };
}
