import type pg from "pg";
import { createAiKey } from "#shared/ai-key.ts";
import { loadRuns } from "../load/load-runs.ts";
import { createLoadTenant, type LoadTenant } from "../load/load-tenant.ts";
import { addAttemptedRuns } from "./attempted-runs.ts";
import type { Account } from "./world.ts";

interface People {
  owner: Account;
  member: Account;
  createAccount(name: string, local: string): Promise<Account>;
}

/**
 * Creates a workspace with two months of activity: people, keys, runs, budgets, costs, an invoice, a stored
 * conversation.
 */
export async function fillWorkspace(client: pg.Client, { owner, member, createAccount }: People) {
  const tenant = await createLoadTenant(client);
  const { workspaceId, appId, keyId } = tenant;
  await client.query("update public.workspaces set name = 'Northern Lights Research' where id = $1", [workspaceId]);
  await client.query("update private.apps set display_name = 'Ledger Sync' where id = $1", [appId]);
  await client.query(
    "update ai.keys set name = 'Nightly report', last_used_at = now() - interval '2 hours' where id = $1",
    [keyId],
  );
  // Makes these runs 60 times as expensive. Otherwise the few expensive runs with several calls would dwarf the daily
  // costs.
  await loadRuns(client, { tenant, runs: 2_000, days: 60, price: 60 });

  const colleague = await createAccount("Jun Park", "jun.park");
  const roleId = await addRole(client, workspaceId);
  await addMember(client, { workspaceId, userId: member.id, role: "member" });
  await addMember(client, { workspaceId, userId: colleague.id, role: "admin" });
  await addMember(client, {
    workspaceId,
    userId: (await createAccount("Lea Brandt", "lea.brandt")).id,
    role: "viewer",
  });
  await assignRuns(client, { tenant, members: [owner.id, member.id, colleague.id] });
  await addKeys(client, { workspaceId, ownerId: owner.id });
  await addBudgets(client, { workspaceId, appId, keyId });
  await addCosts(client, { workspaceId, appId });
  const importId = await importFile(client, { workspaceId, appId, ownerId: owner.id });
  const runId = await idOfNewestRun(client, workspaceId);
  const envelopes = await addEnvelopes(client, { workspaceId, keyId, ownerId: owner.id, memberId: member.id });
  await client.query(
    `update ai.runs set envelope_id = $2,
       budget_scopes = '{workspace,key,key/day,key/total,key/concurrent,envelope/total}'
     where id = $1`,
    [runId, envelopes.open],
  );
  const { rows } = await client.query<{ id: string }>("select ai.store_provider_invoice($1, $2, $3) ->> 'id' as id", [
    workspaceId,
    appId,
    JSON.stringify({
      provider: "openai",
      accountId: "proj_1",
      reference: "INV-2026-0917",
      amountUsd: "0.300000000002",
      issuedOn: "2026-02-01",
      periodStart: "2026-01-01",
      periodEnd: "2026-01-31",
      reviewedAt: "2026-02-03T09:30:00Z",
    }),
  ]);
  return {
    busy: workspaceId,
    appId,
    keyId,
    roleId,
    colleagueId: colleague.id,
    invoiceId: rows[0]?.id ?? "",
    importId,
    runId,
    envelopes,
    refusedCallId: await addRefusedCalls(client, { workspaceId, keyId, actorId: owner.id }),
    ...(await addAttemptedRuns(client, { workspaceId, keyId })),
    saidRunId: await keepConversation(client, { workspaceId, actorId: owner.id }),
  };
}

/** Replaces the unknown members who made the generated runs with the workspace's real members. */
async function assignRuns(
  client: pg.Client,
  { tenant: { workspaceId, ownerId }, members }: { tenant: LoadTenant; members: string[] },
): Promise<void> {
  for (const table of ["ai.runs", "ai.usage_daily"]) {
    await client.query(
      `update ${table} set actor_id = ($3::uuid[])[1 + get_byte(uuid_send(actor_id), 0) % 3]
       where workspace_id = $1 and actor_id <> $2`,
      [workspaceId, ownerId, members],
    );
  }
}

/** Adds refused calls of the last hours. @returns the id of the newest one, which exceeded a budget */
async function addRefusedCalls(
  client: pg.Client,
  { workspaceId, keyId, actorId }: { workspaceId: string; keyId: string; actorId: string },
): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    `insert into ai.refused_calls (
       id, created_at, workspace_id, actor_id, key_id, credential_source, feature, request_id, model_id, endpoint,
       http_status, error_code, details
     )
     select ai.run_id(at), at, $1, $3, $2, 'key', 'chat', 'refused-' || n, 'demo-chat', '/v1/chat/completions', status,
       code, '{}'
     from (values
       (1, 402, 'budget_exceeded'), (2, 429, 'rate_limit_exceeded'), (3, 404, 'model_not_found')
     ) as c (n, status, code)
     cross join lateral (select now() - n * interval '1 hour' as at) t
     returning id`,
    [workspaceId, keyId, actorId],
  );
  return rows[0]?.id ?? "";
}

async function addRole(client: pg.Client, workspaceId: string): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    `insert into public.workspace_roles (workspace_id, name, permissions)
     values ($1, 'Key keepers', '{use_ai_studio,manage_ai_keys}') returning id`,
    [workspaceId],
  );
  return rows[0]?.id ?? "";
}

async function addMember(
  client: pg.Client,
  { workspaceId, userId, role }: { workspaceId: string; userId: string; role: string },
): Promise<void> {
  await client.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select $1, $2, id from public.workspace_roles where workspace_id = $1 and name = $3`,
    [workspaceId, userId, role],
  );
}

async function addKeys(
  client: pg.Client,
  { workspaceId, ownerId }: { workspaceId: string; ownerId: string },
): Promise<void> {
  const add = async (name: string, changes: string) => {
    const { lookup, hash } = await createAiKey();
    await client.query("select ai.create_key($1, $2, $3, $4, $5)", [
      workspaceId,
      ownerId,
      name,
      lookup,
      Buffer.from(hash),
    ]);
    await client.query(`update ai.keys set created_at = now() - interval '20 days', ${changes} where lookup = $1`, [
      lookup,
    ]);
  };
  await add("Old importer", "revoked_at = now() - interval '3 days'");
  await add(
    "A key with a long name, for the integration tests of the mobile apps",
    "environment = 'development', requests_per_minute = 60, allowed_models = '{demo-chat}', expires_at = now() + interval '9 days'",
  );
}

async function addBudgets(
  client: pg.Client,
  { workspaceId, appId, keyId }: { workspaceId: string; appId: string; keyId: string },
): Promise<void> {
  await client.query(
    `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, reserved_usd, refused_at)
     values ('workspace', $1, $1, 50, 12.3456, 0.5, null), ('app', $2, $1, 5, 4.999, 0, now()), ('key', $3, $1, 20, 16.4, 0, null)
     on conflict (scope, subject_id, workspace_id, period)
     do update set limit_usd = excluded.limit_usd, spent_usd = excluded.spent_usd, refused_at = excluded.refused_at`,
    [workspaceId, appId, keyId],
  );
  await client.query("select ai.set_budget('label', ai.label_id($2), $1, 30, $2)", [workspaceId, "customer:7"]);
  await client.query(
    `select
       ai.set_budget('key', $2, $1, 10, null, 'day', 'Europe/Berlin', '{75,100}'),
       ai.set_budget('key', $2, $1, 400, null, 'total'),
       ai.set_budget('key', $2, $1, null, null, 'concurrent', null, null, 10)`,
    [workspaceId, keyId],
  );
  await client.query(
    `update ai.budgets set spent_usd = case period when 'day' then 3.2 when 'total' then 128.75 else 0 end, calls = case period when 'concurrent' then 3 else 0 end
     where workspace_id = $1 and scope = 'key' and period <> 'month'`,
    [workspaceId],
  );
  await client.query(
    `select ai.set_budget('member', m.user_id, $1, 25) from public.workspace_members m where m.workspace_id = $1
     order by m.user_id limit 1`,
    [workspaceId],
  );
}

/** Adds task limits in each state. @returns their ids by state */
async function addEnvelopes(
  client: pg.Client,
  { workspaceId, keyId, ownerId, memberId }: { workspaceId: string; keyId: string; ownerId: string; memberId: string },
): Promise<Record<"waiting" | "open" | "ended" | "expired", string>> {
  const open = async (principal: string, { label, usd, set }: { label: string; usd: string; set: string }) => {
    const { rows } = await client.query<{ id: string }>(
      "select ai.open_envelope($1, $2, $3, $4, $5, $6, $5) ->> 'id' as id",
      [
        workspaceId,
        principal,
        label,
        JSON.stringify({ usd, calls: 200 }),
        principal === keyId ? ownerId : principal,
        principal === keyId ? keyId : null,
      ],
    );
    const id = rows[0]?.id ?? "";
    await client.query(`update ai.budgets set ${set} where scope = 'envelope' and subject_id = $1`, [id]);
    return id;
  };
  const session = "claude-code:3f0c7c1e-9a0b-4f0e-8f5d-0b9a3c2d1e4f";
  const waiting = await open(keyId, {
    label: session,
    usd: "5",
    set: "spent_usd = 4.873412, reserved_usd = 0.052, calls = 143, refused_at = now() - interval '3 minutes'",
  });
  const running = await open(keyId, {
    label: "nightly-import",
    usd: "20",
    set: "spent_usd = 6.25, reserved_usd = 1.5, calls = 38",
  });
  await client.query(
    `select ai.change_envelope($1, $2, $3, $4, ai.read_envelope($1, $2, $3) -> 'envelope' ->> 'version', true)`,
    [ownerId, workspaceId, running, JSON.stringify({ limitUsd: "40", calls: 400 })],
  );
  await open(memberId, { label: "", usd: "10", set: "spent_usd = 9.1, calls = 12" });
  const ended = await open(keyId, { label: "refactoring", usd: "5", set: "spent_usd = 3.2, calls = 90" });
  await client.query("select ai.change_envelope($1, $2, $3, $4, null, false)", [
    ownerId,
    workspaceId,
    ended,
    JSON.stringify({ ended: true }),
  ]);
  const expired = await open(keyId, {
    label: "migration",
    usd: "1",
    set: "spent_usd = 0.98, calls = 22, ends_at = now() - interval '2 hours'",
  });
  return { waiting, open: running, ended, expired };
}

async function addCosts(
  client: pg.Client,
  { workspaceId, appId }: { workspaceId: string; appId: string },
): Promise<void> {
  await client.query(
    `select ai.store_provider_cost($1, $2, jsonb_build_object('provider', 'openai', 'accountId', 'proj_1', 'observedAt',
       now() - interval '1 day') || r) from jsonb_array_elements($3::jsonb) as r`,
    [
      workspaceId,
      appId,
      JSON.stringify([
        { externalRunId: "run-1", amountUsd: "0.1", occurredAt: "2026-01-20T09:00:00Z" },
        { externalRunId: "run-2", amountUsd: "0.2", occurredAt: "2026-01-20T10:00:00Z" },
        {
          externalRunId: "proj_1:2026-01-20",
          amountUsd: "0.300000000001",
          occurredAt: "2026-01-20T00:00:00Z",
          granularity: "account_day",
        },
      ]),
    ],
  );
}

/** Imports a bill in euros. @returns the id of its receipt */
async function importFile(
  client: pg.Client,
  { workspaceId, appId, ownerId }: { workspaceId: string; appId: string; ownerId: string },
): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    "select ai.import_cost_file($1, $2, $3, $4, null) ->> 'importId' as id",
    [
      ownerId,
      workspaceId,
      appId,
      JSON.stringify({
        provider: "gcp",
        format: "google-billing-export",
        fileName: "gcp_billing_export_january.csv",
        sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        timeZone: "America/Los_Angeles",
        rates: { EUR: "1.08" },
        days: ["2026-01-20", "2026-01-21"].map((day) => ({
          accountId: "northern-lights-prod",
          day,
          amounts: [{ currency: "EUR", amount: "38.75" }],
        })),
      }),
    ],
  );
  return rows[0]?.id ?? "";
}

async function idOfNewestRun(client: pg.Client, workspaceId: string): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    "select id from ai.runs where workspace_id = $1 and status = 'succeeded' order by created_at desc limit 1",
    [workspaceId],
  );
  return rows[0]?.id ?? "";
}

/** Adds a run whose conversation is stored. @returns its id */
async function keepConversation(
  client: pg.Client,
  { workspaceId, actorId }: { workspaceId: string; actorId: string },
): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, request_id, credential_source, execution_mode, model_id, feature, status,
       settled_at, usage_source, routes, markup, reserved_usd, reserved_credits, input_tokens, output_tokens, cost_usd,
       billed_credits, latency_ms
     ) values (
       ai.run_id(now()), now(), $1, $2, 'req-7f3a', 'session', 'interactive', 'demo-chat', 'chat', 'succeeded', now(),
       'provider', '[]', 1, 0, 0, 412, 96, 0.0004, 4, 812
     ) returning id`,
    [workspaceId, actorId],
  );
  const id = rows[0]?.id ?? "";
  await client.query(
    `insert into ai.workspace_policies (workspace_id, content_capture, updated_by) values ($1, true, $2)
     on conflict (workspace_id) do update set content_capture = true`,
    [workspaceId, actorId],
  );
  const call = { id: "1", type: "function", function: { name: "look_up_weather", arguments: '{"city":"Tromsø"}' } };
  const messages = [
    { role: "system", content: "Answer in one sentence." },
    { role: "user", content: "Will there be northern lights tonight?" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", content: `${"Clear sky. ".repeat(200)}The end.` },
  ];
  const answer = { choices: [{ message: { role: "assistant", content: "Yes: the sky is clear until four." } }] };
  await client.query(
    `insert into ai.run_content (run_created_at, run_id, workspace_id, prompt, answer)
     select created_at, id, workspace_id, $2, $3 from ai.runs where id = $1`,
    [id, JSON.stringify({ messages }), JSON.stringify(answer)],
  );
  const steps = [
    { step: 1, type: "model", name: "demo-chat", status: "succeeded", latency_ms: 412 },
    { step: 2, type: "tool", name: "look_up_weather", status: "succeeded", latency_ms: 38 },
  ];
  await client.query("update ai.runs set steps = $2 where id = $1", [id, JSON.stringify(steps)]);
  return id;
}
