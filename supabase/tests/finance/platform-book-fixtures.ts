import { randomUUID } from "node:crypto";
import { monthWindow } from "../../../remix-app/studio/costs/month.ts";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, one } from "../database.ts";

export type AddedRun = {
  workspaceId: string;
  /** YYYY-MM-DD */
  day: string;
  costUsd: string;
  /** The provider's billing name; null if there is none, as for runs that the sweep closed. */
  billedBy: string | null;
  account?: string | null;
  /** The provider's id, as in routes. */
  providerId?: string;
  usageSource?: string;
  swept?: boolean;
};

/** Adds a settled run at noon on a day. */
export async function addRun(db: Database, run: AddedRun): Promise<void> {
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route, markup,
       status, usage_source, cost_usd, reserved_usd, reserved_credits, billing_name, billing_account, swept, settled_at
     )
     values (
       $1::uuid, $2::timestamp at time zone 'UTC', $3, 'key', 'interactive', 'chat', $1::uuid::text, 'model',
       jsonb_build_array(jsonb_build_object('position', 1, 'provider', $4::text)), 1, 1, 'succeeded', $5, $6, 0, 0, $7, $8, $9, now()
     )`,
    [
      randomUUID(),
      `${run.day} 12:00`,
      run.workspaceId,
      run.providerId ?? "demo",
      run.usageSource ?? "provider",
      run.costUsd,
      run.billedBy,
      run.account ?? null,
      run.swept ?? false,
    ],
  );
}

export const dayOf = (month: string, day: number) => `${month}-${String(day).padStart(2, "0")}`;

/** Returns helpers that use the platform's reconciliation for one provider, as the console does. */
export async function platformBook(db: Database, { provider, month }: { provider: string; month: string }) {
  const admin = await createAdmin(db);
  const service = async (name: string, values: unknown[]) => {
    const sql = `select ${name}(${values.map((_, place) => `$${place + 1}`).join(", ")}) as answer`;
    // biome-ignore lint/suspicious/noExplicitAny: answers of several functions, compared in tests
    return (await db.asRole("service_role", () => one<{ answer: any }>(db, { sql, values }))).answer;
  };
  const call = (name: string, values: unknown[]) => service(`ai.${name}`, [admin.id, platformBookId, ...values]);
  return {
    provider,
    adminId: admin.id,
    email: admin.email,
    call,
    /** Returns the provider's line of the month, or undefined. */
    line: async (of = month) =>
      (await call("reconcile_costs", [...Object.values(monthWindow(of)), null, 5_000])).records.find(
        (each: { provider: string }) => each.provider === provider,
      ),
    explain: (of = month) => service("private.explain_platform_month", [`${of}-01`, provider]),
    review: (record: object) =>
      call("review_provider_invoice", [platformBookId, JSON.stringify({ provider, ...record })]),
    list: (filter: object = {}) => call("list_provider_invoices", [null, 50, JSON.stringify({ provider, ...filter })]),
    record: (record: object) => {
      const recorded = {
        provider,
        amountUsd: "10",
        issuedOn: `${month}-28`,
        reviewedAt: `${month}-28T12:00:00Z`,
        periodStart: `${month}-01`,
        periodEnd: dayOf(month, 28),
        ...record,
      };
      return call("record_provider_invoice", [platformBookId, JSON.stringify(recorded), { reason: "test" }]);
    },
    /** Imports an account's totals for a day into the platform's costs. */
    cost: async (
      day: string,
      amountUsd: string,
      changes: { account?: string; service?: string; provider?: string } = {},
    ) => {
      const { account = "acct-1", service = null, provider: of = provider } = changes;
      await db.query(
        `insert into ai.external_provider_costs (
           workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
           observed_at
         )
         values (ai.platform_book(), ai.platform_book(), $1, $2, $3, 'account_day', $4, $5, $6::timestamp at time zone 'UTC', now())`,
        [of, account, randomUUID(), service, amountUsd, day],
      );
    },
    /** Imports an account's total for a day into a workspace's costs. */
    ownCost: async (
      workspaceId: string,
      day: string,
      amountUsd: string,
      { account = "acct-1", spelling = provider } = {},
    ) => {
      await db.query(
        `insert into ai.external_provider_costs (
           workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
         )
         values ($1, $2, $3, $4, $5, 'account_day', $6, $7::timestamp at time zone 'UTC', now())`,
        [workspaceId, randomUUID(), spelling, account, randomUUID(), amountUsd, day],
      );
    },
  };
}
