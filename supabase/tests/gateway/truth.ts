import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { formatDecimal, parseDecimal } from "../../functions/_shared/decimal.ts";
import { usageCostUsd, usdToCredits } from "../../functions/_shared/money.ts";
import type { Account, GatewayTenant } from "./tenant.ts";

/** The demo models' prices and the team plan's credits per USD, from supabase/seed.sql. */
const prices = [{ min_input_tokens: 0, input: "0.15", cached_input: "0.075", output: "0.6" }];
const creditsPerUsd = "12000";

/**
 * Expects the run's usage to equal the usage that the provider recorded. Expects the cost of the run and the charge in
 * the ledger to equal the cost of that usage at these prices.
 */
export function expectTruth({ run, charged, truth }: Account): void {
  const used = truth.at(-1)?.usage;
  expect(run).toMatchObject({
    input_tokens: used?.input,
    cached_input_tokens: used?.cachedInput,
    output_tokens: used?.output,
    reasoning_tokens: used?.reasoning,
  });
  const cost = usageCostUsd({ prices }, run);
  expect(formatDecimal(parseDecimal(run.cost_usd))).toBe(formatDecimal(cost));
  expect(formatDecimal(parseDecimal(run.billed_credits))).toBe(formatDecimal(usdToCredits(cost, creditsPerUsd)));
  expect(charged).toBe(run.billed_credits);
}

/**
 * Returns how many calls the provider received for a request. The provider sees the run's id, not the client's request
 * id.
 */
export async function providerCalls({ db, workspaceId }: GatewayTenant, requestId: string): Promise<number> {
  const sql = "select id from ai.runs where workspace_id = $1 and request_id = $2";
  const counts = (await db.query<{ id: string }>(sql, [workspaceId, requestId])).map(async ({ id }) => {
    const truth = await fetch(`${readStack().provider}/truth?request_id=${id}`);
    return ((await truth.json()) as { calls: unknown[] }).calls.length;
  });
  return (await Promise.all(counts)).reduce((total, count) => total + count, 0);
}

/** Makes a call and disconnects as soon as the provider has received it. */
export async function leaveOnceAsked(
  tenant: GatewayTenant,
  { requestId, leaving }: { requestId: string; leaving: AbortController },
): Promise<void> {
  while ((await providerCalls(tenant, requestId)) === 0) await sleep(20);
  leaving.abort();
}
