import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";

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
    ["caller", "find_callers", ["find_caller", "price_calls", "record_refused_calls"]],
    ["person", "user_callers", ["find_caller", "price_calls", "record_refused_calls"]],
    [
      "one caller",
      "find_caller",
      ["app_caller", "check_credential", "describe_credential", "list_models", "read_own_envelope"],
    ],
    [
      "may call",
      "call_refusal",
      ["check_credential", "describe_credential", "extend_run", "list_models", "price_refusal", "read_own_envelope"],
    ],
    ["agent's key", "agent_key_statuses", ["agent_of_key", "find_callers"]],
    ["agent's login", "live_agent_logins", ["agent_key_statuses", "agent_login_end"]],
    ["agent's member", "agent_memberships", ["agent_key_statuses", "may_connect_agents"]],
    ["model access", "usable_models", ["list_models", "missing_model", "price_calls"]],
    [
      "routes and prices",
      "open_routes",
      ["explain_refusal", "list_models", "missing_model", "priced_routes", "route_refusal"],
    ],
    ["maximum cost", "maximum_cost", ["expect_outputs", "extend_run", "fitting_output_limit", "price_calls"]],
    [
      "credits",
      "usd_to_credits",
      ["extend_run", "fitting_output_limit", "price_calls", "settle_outcomes", "sweep_runs"],
    ],
    ["reserved tokens", "reserved_tokens", ["extend_run", "price_calls"]],
    ["rate window", "fits_window", ["reserve"]],
    ["budget", "fits_budget", ["budget_room", "reserve"]],
    ["reservation", "reserve", ["admit_calls", "extend_output", "extend_run"]],
    ["lock order", "lock_rows", ["reserve", "settle_outcomes"]],
    ["closing a run", "book_settlements", ["settle_outcomes"]],
    ["settlement", "settle_outcomes", ["release_orphaned_runs", "settle_runs", "sweep_runs"]],
  ] as const)('the rule "%s" is defined only in ai.%s', async ([, name, callers], { db }) => {
    const defined = await db.query("select from pg_catalog.pg_proc where oid::regproc::text = $1", [`ai.${name}`]);
    expect(defined).toHaveLength(1);
    expect(await functionsWith(db, `\\mai\\.${name}\\(`)).toEqual(callers);
  });

  test.for([
    ["changes rate windows", "(update|insert into) ai\\.rate_windows", ["book_settlements", "lock_rows", "reserve"]],
    ["reserves and charges credits", "update ai\\.credit_accounts", ["book_settlements", "change_credits", "reserve"]],
    ["opens runs", "insert into ai\\.runs", ["admit_calls"]],
    ["closes runs", "update ai\\.runs r\\s+set\\s+status", ["book_settlements"]],
  ] as const)("only the listed functions contain SQL that %s", async ([, pattern, names], { db }) => {
    expect(await functionsWith(db, pattern)).toEqual(names);
  });
});
