import { describe, expect } from "vitest";
import { type Database, test } from "./database.ts";

/** Returns the sorted names of the functions of schema `ai` whose body matches the pattern. */
async function functionsWith(db: Database, pattern: string): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    `select p.proname as name from pg_catalog.pg_proc p
     where p.pronamespace = 'ai'::regnamespace and p.prosrc ~ $1 order by 1`,
    [pattern],
  );
  return rows.map(({ name }) => name);
}

describe("the gateway's SQL rules are each defined once", () => {
  test.for([
    ["caller", "find_caller", ["app_caller", "check_credential", "describe_credential", "list_models", "price_call"]],
    ["may call", "call_refusal", ["check_credential", "describe_credential", "list_models", "price_call"]],
    ["model access", "usable_models", ["find_offer", "list_models"]],
    ["routes and prices", "open_prices", ["list_models", "priced_routes"]],
    ["maximum cost", "maximum_cost_usd", ["extend_run", "find_offer"]],
    ["credits", "usd_to_credits", ["admit_call", "extend_run", "settle_outcomes", "sweep_runs"]],
    ["rate window", "consume_rate_limit", ["admit_call", "extend_run", "reserve_limits"]],
    ["reserved tokens", "reserved_tokens", ["extend_run", "find_offer"]],
    ["budgets of a call", "budget_scopes", ["find_caller"]],
    ["budget", "reserve_budget", ["reserve_limits"]],
    ["reservation", "reserve_limits", ["admit_call", "extend_run"]],
    ["lock order", "lock_rows", ["admit_calls", "extend_run", "settle_outcomes"]],
    ["closing a run", "book_settlements", ["settle_outcomes"]],
    ["settlement", "settle_outcomes", ["release_orphaned_runs", "settle_runs", "sweep_runs"]],
  ] as const)('the rule "%s" is defined only in ai.%s', async ([, name, callers], { db }) => {
    const defined = await db.query("select from pg_catalog.pg_proc where oid::regproc::text = $1", [`ai.${name}`]);
    expect(defined).toHaveLength(1);
    expect(await functionsWith(db, `\\mai\\.${name}\\(`)).toEqual(callers);
  });

  test.for([
    [
      "changes rate windows",
      "(update|insert into) ai\\.rate_windows",
      ["book_settlements", "consume_rate_limit", "lock_rows", "return_tokens"],
    ],
    [
      "reserves and charges credits",
      "update ai\\.credit_accounts",
      ["book_settlements", "change_credits", "reserve_limits"],
    ],
    ["opens runs", "insert into ai\\.runs", ["admit_call"]],
    ["closes runs", "update ai\\.runs r\\s+set\\s+status", ["book_settlements"]],
  ] as const)("only the listed functions contain SQL that %s", async ([, pattern, names], { db }) => {
    expect(await functionsWith(db, pattern)).toEqual(names);
  });
});
