import type { Env } from "../config/env.server.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

type DatabaseFunction = {
  schema: "private" | "ai";
  name: string;
  args?: object;
  intervalMs: number;
  /** The number of rows that a full call removes. */
  maxBatchRows?: number;
};

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** Longer than the Data API's statement timeout, and shorter than the shortest interval. */
const timeoutMs = 10 * secondMs;

/**
 * The maximum number of rows of a kind that one call removes. Each call commits, so that other transactions wait for
 * only a few rows.
 */
const defaultBatchRows = 1_000;

/**
 * Functions that keep the database tidy. If pg_cron is installed, its jobs call the same functions at the same
 * intervals. Only one call of each function works at a time. Concurrent calls return at once and do nothing.
 */
export const upkeepFunctions = {
  /** Deletes expired attempts and blocks. */
  "clear-attempts": { schema: "private", name: "delete_expired_attempts", intervalMs: 5 * minuteMs },
  /** Closes the gateway's runs that have been silent for 45 s, even if no calls arrive. */
  "sweep-runs": { schema: "ai", name: "sweep_runs", intervalMs: 15 * secondMs },
  /** Notes which providers are failing, and which work again. */
  "record-provider-outages": { schema: "ai", name: "record_provider_outages", intervalMs: 15 * secondMs },
  /** Deletes run content once the workspace's retention days have passed. */
  "sweep-content": { schema: "ai", name: "delete_expired_content", intervalMs: minuteMs },
  /** Deletes the gateway's expired idempotency keys and the rate-limit windows of inactive subjects. */
  "forget-expired-gateway-state": { schema: "ai", name: "delete_expired", intervalMs: 5 * minuteMs },
  /** Deletes each app credential a day after the credential ends, and expired tokens of service accounts. */
  "sweep-app-credentials": { schema: "private", name: "sweep_app_credentials", intervalMs: 10 * minuteMs },
  /** Deletes expired OAuth attempts, and identities whose linking was never completed. */
  "sweep-oauth-attempts": { schema: "private", name: "sweep_oauth_attempts", intervalMs: minuteMs },
  /** Deletes expired challenges, and approvals that are no longer valid. */
  "sweep-login-challenges": { schema: "private", name: "sweep_login_challenges", intervalMs: 10 * minuteMs },
  /**
   * Aggregates the runs of past days. Without it, the usage report is correct but slower. Processes a few days per
   * call, to keep each call short.
   */
  "roll-up-usage": { schema: "ai", name: "roll_up_usage", args: { max_days: 7 }, intervalMs: 15 * secondMs },
  /**
   * Ends sessions that have been idle for 30 days in a browser's vault, and deletes expired devices, vault entries and
   * records of added accounts.
   */
  "sweep-account-devices": { schema: "private", name: "sweep_account_devices", intervalMs: hourMs },
  /** Deletes an account whose scheduled deletion is due. Each call deletes at most one. */
  "delete-due-accounts": { schema: "private", name: "delete_due_accounts", intervalMs: minuteMs, maxBatchRows: 1 },
  /** Deletes expired recovery credentials, expired records of wrong codes, and expired leases for minting sessions. */
  "sweep-recoveries": { schema: "private", name: "sweep_recoveries", intervalMs: hourMs },
} as const satisfies Record<string, DatabaseFunction>;

type UpkeepName = keyof typeof upkeepFunctions;

/** Returns all maintenance tasks that consist of one database function each. */
export function createUpkeepTasks(env: Env): ScheduledTask[] {
  return (Object.keys(upkeepFunctions) as UpkeepName[]).map((name) => upkeepTask(env, name));
}

/**
 * Returns one task of {@link createUpkeepTasks}. The task repeats its database call until a call deletes less than a full batch.
 */
export function upkeepTask(env: Pick<Env, "SUPABASE_URL" | "SUPABASE_SECRET_KEY">, name: UpkeepName): ScheduledTask {
  const {
    schema,
    name: functionName,
    args,
    intervalMs,
    maxBatchRows = defaultBatchRows,
  }: DatabaseFunction = upkeepFunctions[name];
  const database = createServiceClient(env, { timeoutMs }).schema(schema);
  return {
    name,
    intervalMs,
    async run(signal) {
      let deleted: unknown;
      do {
        const { data, error } = await database.rpc(functionName, args).abortSignal(signal);
        if (error) throw new Error(`${error.code} ${error.message}`);
        deleted = data;
      } while (typeof deleted === "number" && deleted >= maxBatchRows && !signal.aborted);
    },
  };
}
