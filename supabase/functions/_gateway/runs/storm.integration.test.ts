import { randomInt, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { createApp } from "../../../../scripts/test/apps.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAppToken, createMember } from "../../../tests/gateway/tenant-callers.ts";
import { createAiKey } from "../../_shared/ai-key.ts";

const models = ["demo-chat", "demo-chat", "demo-paced", "demo-error-500", "demo-cut", "demo-no-usage", "demo-reset"];
const callers = 240;
const keys = 60;

function oneOf<Item>(items: readonly Item[]): Item {
  return items[randomInt(items.length)] as Item;
}

/** Makes a random kind of call, and may disconnect midway. @returns how it ended */
async function callSomehow(client: OpenAI, headers: Record<string, string>, key: string): Promise<string> {
  const leaving = new AbortController();
  if (randomInt(3) === 0) setTimeout(() => leaving.abort(), randomInt(250));
  // The request is derived from the key, so that a retry sends the same request.
  const model = models[Number.parseInt(key.slice(0, 4), 16) % models.length] ?? "demo-chat";
  const stream = Number.parseInt(key.slice(4, 8), 16) % 2 === 0;
  const asked = {
    model,
    stream,
    messages: [{ role: "user" as const, content: "[[words=8]]" }],
    max_completion_tokens: 50,
  };
  try {
    const options = { headers: { ...headers, "idempotency-key": key }, signal: leaving.signal };
    const answer = await client.chat.completions.create(asked, options);
    if (Symbol.asyncIterator in answer) for await (const _ of answer);
    return "answered";
  } catch (error) {
    return String((error as { code?: string }).code ?? "left");
  }
}

/** Creates another key of the workspace and binds it to an app that is linked to the workspace. */
async function createBoundKey(tenant: GatewayTenant): Promise<string> {
  const app = await createApp({
    kind: "external",
    scopes: ["workspace:session", "ai:use"],
    workspaceId: tenant.workspaceId,
  });
  const { text, lookup, hash } = await createAiKey();
  await tenant.db.query("select ai.create_key(id, created_by, 'app', $2, $3) from public.workspaces where id = $1", [
    tenant.workspaceId,
    lookup,
    Buffer.from(hash),
  ]);
  await tenant.db.query("update ai.keys set external_app_id = $2 where lookup = $1", [lookup, app.id]);
  await tenant.db.query(
    "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('app', $1, $2, 0.0002)",
    [app.id, tenant.workspaceId],
  );
  return text;
}

test("the books balance after a storm of callers who fail, disconnect, retry and exceed every limit", async () => {
  const tenant = await createGatewayTenant({ credits: "120" });
  const member = await createMember(tenant);
  const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
  const { token } = await createAppToken(tenant, member);
  const credentials = [tenant.key, await createBoundKey(tenant), token, member.accessToken];
  const clients = credentials.map((apiKey) => tenant.client.withOptions({ apiKey, defaultHeaders: workspace }));
  await tenant.db.query(
    `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
     values ('key', $1, $2, 0.0003), ('workspace', $2, $2, 0.0009)`,
    [tenant.keyId, tenant.workspaceId],
  );

  const chosen = Array.from({ length: keys }, () => randomUUID());
  const ends = await Promise.all(
    Array.from({ length: callers }, async () => {
      await sleep(randomInt(600));
      return callSomehow(oneOf(clients), {}, oneOf(chosen));
    }),
  );
  expect(ends).toEqual(expect.arrayContaining(["answered", "left", "provider_error", "budget_exceeded"]));
  expect(ends.filter((end) => end === "internal_error" || end === "rate_limit_exceeded")).toEqual([]);

  const open = "select count(*)::int as open from ai.runs where workspace_id = $1 and status = 'running'";
  await expect.poll(() => tenant.db.query(open, [tenant.workspaceId]), { timeout: 20_000 }).toEqual([{ open: 0 }]);

  const [books] = await tenant.db.query(
    `with r as (select * from ai.runs where workspace_id = $1)
     select
       a.reserved::text, a.balance >= 0 as solvent,
       a.balance = (select sum(l.amount) from ai.credit_ledger l where l.account_id = a.id) as ledger_is_balance,
       120 - a.balance = (select sum(billed_credits) from r) as runs_are_ledger,
       (select coalesce(sum(billed_credits), 0) from r where exempt) as exempt_paid,
       (select count(*)::int from r where cost_usd > reserved_usd and usage_source in ('estimated_partial')) as beyond,
       (select count(*)::int from (
          select from ai.credit_ledger l where l.account_id = a.id and run_id is not null group by run_id having count(*) > 1
        ) as x) as charged_twice
     from ai.credit_accounts a where a.workspace_id = $1`,
    [tenant.workspaceId],
  );
  expect(books).toEqual({
    reserved: "0.00000000",
    solvent: true,
    ledger_is_balance: true,
    runs_are_ledger: true,
    exempt_paid: "0.00000000",
    beyond: 0,
    charged_twice: 0,
  });

  const budgets = await tenant.db.query(
    `select b.scope, b.reserved_usd::text as reserved, b.spent_usd <= b.limit_usd as kept,
       b.spent_usd = (
         select coalesce(sum(r.cost_usd), 0) from ai.runs r
         where r.workspace_id = $1 and b.scope = any (r.budget_scopes)
           and b.subject_id = case b.scope when 'key' then r.key_lineage_id when 'app' then r.app_id else r.workspace_id end
       ) as is_of_runs
     from ai.budgets b where b.workspace_id = $1 order by b.scope`,
    [tenant.workspaceId],
  );
  const whole = { reserved: "0.000000000000", kept: true, is_of_runs: true };
  expect(budgets).toEqual(["app", "key", "workspace"].map((scope) => ({ scope, ...whole })));

  // An idempotency key has a second run only if the first one certainly cost nothing.
  const twice = await tenant.db.query(
    `select idempotency_key, coalesce(key_lineage_id, app_id, actor_id) as principal
     from ai.runs where workspace_id = $1 and cost_usd > 0 group by 1, 2 having count(*) > 1`,
    [tenant.workspaceId],
  );
  expect(twice).toEqual([]);
  await tenant.close();
});
