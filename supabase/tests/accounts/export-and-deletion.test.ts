import { Client } from "pg";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, createWorkspace, failureOf } from "../actors.ts";
import { createUser, type Database, enrollFactor, join, one, signIn, test } from "../database.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";

const deleteAccount = (db: Database, userId: string) =>
  db.asRole("service_role", async () => {
    const { answer } = await one<{ answer: unknown }>(db, {
      sql: "select private.delete_account($1, 'request-1') as answer",
      values: [userId],
    });
    return answer;
  });

const exportAccount = (db: Database, userId: string) =>
  db.asRole("service_role", async () => {
    const { answer } = await one<{ answer: Record<string, unknown> | null }>(db, {
      sql: "select private.export_account($1) as answer",
      values: [userId],
    });
    return answer;
  });

describe("deleting an account", () => {
  test("deleting an account erases it, its sessions and its profile, and logs one line without its email address", async ({
    db,
  }) => {
    const user = await createUser(db);
    await signIn(db, { userId: user.id });
    expect(await deleteAccount(db, user.id)).toEqual({ deleted: true, blockers: [] });
    for (const sql of [
      "select from auth.users where id = $1",
      "select from auth.sessions where user_id = $1",
      "select from public.profiles where id = $1",
    ])
      expect(await db.query(sql, [user.id])).toEqual([]);
    const entry = await one<{ row: string }>(db, {
      sql: "select to_jsonb(l)::text as row from private.admin_audit_log l where action = 'account.deleted' and target = $1",
      values: [user.id],
    });
    expect(entry.row).not.toContain(user.email);
  });

  test("refuses to delete the only owner of a workspace with other members, and names that workspace", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    const member = await createUser(db);
    await join(db, { workspaceId: id, userId: member.id, role: "admin" });
    expect(await deleteAccount(db, owner.sub)).toEqual({
      deleted: false,
      blockers: [{ workspaceId: id, name: "Shared", members: 2 }],
    });
    expect(await db.query("select from auth.users where id = $1", [owner.sub])).toHaveLength(1);
  });

  test("deletes an account once its workspace has another owner, and keeps the workspace", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const member = await createUser(db);
    await join(db, { workspaceId: id, userId: member.id, role: "owner" });
    expect(await deleteAccount(db, owner.sub)).toEqual({ deleted: true, blockers: [] });
    expect(await db.query("select from public.workspaces where id = $1 and deleted_at is null", [id])).toHaveLength(1);
  });

  test("deleting an account closes its workspaces that have no other members", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    expect(await deleteAccount(db, owner.sub)).toEqual({ deleted: true, blockers: [] });
    expect(await db.query("select from public.workspaces where id = $1 and deleted_at is null", [id])).toEqual([]);
  });

  test("deleting an account that doesn't exist changes nothing", async ({ db }) => {
    expect(await deleteAccount(db, crypto.randomUUID())).toEqual({ deleted: false, blockers: [] });
  });

  test("deleting an account waits for a member who is joining its workspace, and then keeps the workspace", async () => {
    const connect = async () => {
      const client = new Client({ connectionString: readStack().supabase.dbUrl });
      await client.connect();
      return client;
    };
    const [owner, newcomer] = [crypto.randomUUID(), crypto.randomUUID()];
    const [joining, deleting] = [await connect(), await connect()];
    try {
      await joining.query(
        `insert into auth.users (id, aud, role, email)
         select id, 'authenticated', 'authenticated', id || '@race.test' from unnest($1::uuid[]) as id`,
        [[owner, newcomer]],
      );
      const { rows } = await joining.query(
        "insert into public.workspaces (name, created_by) values ('Contested', $1) returning id",
        [owner],
      );
      await joining.query("begin");
      await joining.query(
        `insert into public.workspace_members (workspace_id, user_id, role_id)
         select $1, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
        [rows[0].id, newcomer],
      );
      const answer = deleting.query("select private.delete_account($1, 'request-1') as answer", [owner]);
      await joining.query("commit");
      expect((await answer).rows[0].answer).toMatchObject({ deleted: false, blockers: [{ name: "Contested" }] });
    } finally {
      await joining.query("rollback");
      await joining.query("delete from auth.users where id = any ($1)", [[owner, newcomer]]);
      await Promise.all([joining.end(), deleting.end()]);
    }
  });

  test("deleting an account waits until a concurrent change of that account's role has succeeded", async () => {
    const [owner, member] = [crypto.randomUUID(), crypto.randomUUID()];
    const [changing, deleting] = [await openLine("postgres"), await openLine("postgres")];
    try {
      await changing.db.query(
        `insert into auth.users (id, aud, role, email)
         select id, 'authenticated', 'authenticated', id || '@race.test' from unnest($1::uuid[]) as id`,
        [[owner, member]],
      );
      const { id } = await one<{ id: string }>(changing.db, {
        sql: "insert into public.workspaces (name, created_by) values ('Contested', $1) returning id",
        values: [owner],
      });
      await join(changing.db, { workspaceId: id, userId: member, role: "owner" });
      await changing.client.query("begin");
      await changing.db.query(
        "select from public.workspace_members where user_id = $1 and workspace_id = $2 for update",
        [member, id],
      );
      const answer = deleteAccount(deleting.db, member);
      await untilItWaits(changing.db, { work: answer, blocker: changing.pid });
      // Changing a role locks the workspace too.
      await changing.db.query(
        `update public.workspace_members set role_id = (
           select r.id from public.workspace_roles r where r.workspace_id = $2 and r.name = 'viewer'
         )
         where user_id = $1 and workspace_id = $2`,
        [member, id],
      );
      await changing.client.query("commit");
      expect(await answer).toEqual({ deleted: true, blockers: [] });
    } finally {
      await changing.client.query("rollback");
      for (const user of [owner, member]) await changing.db.query("delete from auth.users where id = $1", [user]);
      await Promise.all([changing.client.end(), deleting.client.end()]);
    }
  });

  test("deleting an account waits until a concurrent acceptance of an invitation from that account has succeeded", async () => {
    const [inviter, invited] = [crypto.randomUUID(), crypto.randomUUID()];
    const [accepting, deleting] = [await openLine("postgres"), await openLine("postgres")];
    try {
      await accepting.db.query(
        `insert into auth.users (id, aud, role, email)
         select id, 'authenticated', 'authenticated', id || '@race.test' from unnest($1::uuid[]) as id`,
        [[inviter, invited]],
      );
      const { id, invitation } = await one<{ id: string; invitation: string }>(accepting.db, {
        sql: `with founded as (
                insert into public.workspaces (name, created_by) values ('Contested', $1) returning id
              )
              select id, gen_random_uuid() as invitation from founded`,
        values: [invited],
      });
      await join(accepting.db, { workspaceId: id, userId: inviter, role: "admin" });
      await accepting.db.query(
        `insert into public.workspace_invitations (id, workspace_id, email, role_id, token_hash, invited_by)
         select $1, $2, 'late@race.test', id, sha256($3), $4
         from public.workspace_roles where workspace_id = $2 and name = 'member'`,
        [invitation, id, Buffer.from(invitation), inviter],
      );
      await accepting.client.query("begin");
      await accepting.db.query("update public.workspace_invitations set accepted_at = now() where id = $1", [
        invitation,
      ]);
      const answer = deleteAccount(deleting.db, inviter);
      await untilItWaits(accepting.db, { work: answer, blocker: accepting.pid });
      // Takes the same lock on the workspace as a new membership.
      await accepting.db.query("select from public.workspaces where id = $1 for key share", [id]);
      await accepting.client.query("commit");
      expect(await answer).toEqual({ deleted: true, blockers: [] });
    } finally {
      await accepting.client.query("rollback");
      for (const user of [inviter, invited]) await accepting.db.query("delete from auth.users where id = $1", [user]);
      await Promise.all([accepting.client.end(), deleting.client.end()]);
    }
  });
});

describe("an account's export", () => {
  test("an account's export contains the account, its profile, authenticators, sessions, workspaces and events", async ({
    db,
  }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const user = await createUser(db, { userMetadata: { display_name: "Ada" } });
    await join(db, { workspaceId, userId: user.id, role: "viewer" });
    await enrollFactor(db, { userId: user.id });
    await signIn(db, { userId: user.id });
    await db.query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', '192.0.2.7')", [
      user.id,
    ]);
    const exported = await exportAccount(db, user.id);
    expect(exported).toMatchObject({
      account: { id: user.id, email: user.email, hasPassword: false },
      profile: { displayName: "Ada" },
      authenticators: [{ type: "totp" }],
      securityEvents: [{ kind: "sign_in", ip: "192.0.2.7" }],
    });
    expect(exported?.sessions).toHaveLength(1);
    expect(exported?.workspaces).toEqual(
      expect.arrayContaining([expect.objectContaining({ id: workspaceId, role: "viewer", personal: false })]),
    );
  });

  test.for([
    [
      "sessions",
      "insert into auth.sessions (id, user_id, created_at, updated_at) select gen_random_uuid(), $1, n, n from t",
    ],
    ["securityEvents", "insert into public.security_events (user_id, kind, created_at) select $1, 'sign_in', n from t"],
    [
      "approvals",
      `insert into private.login_challenges (kind, user_id, session_id, secret_hash, created_at, expires_at)
       select 'qr', $1, gen_random_uuid(), sha256(gen_random_uuid()::text::bytea), n, n + interval '2 minutes' from t`,
    ],
    ["workspaces", "insert into public.workspaces (name, created_by, created_at) select 'Shared', $1, n from t"],
    [
      "invitations",
      `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by, created_at)
       select r.workspace_id, gen_random_uuid() || '@example.com', r.id, sha256(gen_random_uuid()::text::bytea), $1, n
       from t, public.workspace_roles r join public.workspaces w on w.id = r.workspace_id
       where w.created_by = $1 and r.name = 'member'`,
    ],
    [
      "keys",
      `insert into ai.keys (workspace_id, lineage_id, created_by, name, lookup, secret_hash, created_at)
       select w.id, gen_random_uuid(), $1, 'k', substr(md5(gen_random_uuid()::text), 1, 12),
         sha256(gen_random_uuid()::text::bytea), n
       from t, public.workspaces w where w.created_by = $1`,
    ],
    [
      "appHandoffs",
      `insert into private.cross_app_tokens (app_id, user_id, token_hash, proof, created_at, expires_at)
       select (select min(a.id::text)::uuid from private.apps a), $1, sha256(gen_random_uuid()::text::bytea), 'signed', n,
         n + interval '5 minutes' from t`,
    ],
    [
      "appSessions",
      `insert into private.app_sessions (handoff_id, app_id, audience, scopes, proof, user_id, token_hash, issued_at,
         expires_at, ends_at, created_at)
       select gen_random_uuid(), (select min(a.id::text)::uuid from private.apps a), 'app', '{profile}',
         private.handoff_proof(jsonb_build_object('user', $1::uuid)), $1, sha256(gen_random_uuid()::text::bytea), n, n, n, n
       from t`,
    ],
    [
      "appTokens",
      `insert into ai.app_tokens (family_id, app_id, user_id, workspace_id, scopes, proof, lookup, token_hash, expires_at,
         refresh_hash, refresh_expires_at, created_at)
       select gen_random_uuid(), (select min(a.id::text)::uuid from private.apps a), $1, w.id, '{ai:use}',
         private.handoff_proof(jsonb_build_object('user', $1::uuid)), 'abcdefghijkl', sha256(gen_random_uuid()::text::bytea), n,
         sha256(gen_random_uuid()::text::bytea), n, n
       from t, public.workspaces w where w.created_by = $1`,
    ],
    [
      "openidLogins",
      `insert into private.openid_grants (source_id, app_id, user_id, proof, authentication, scopes, created_at, ends_at)
       select gen_random_uuid(), (select min(a.id::text)::uuid from private.apps a), $1,
         private.handoff_proof(jsonb_build_object('user', $1::uuid)),
         row(n, 'aal1', '{pwd}')::private.openid_authentication, '{openid}', n, n + interval '1 day'
       from t`,
    ],
    [
      "openidCodes",
      `insert into private.authorization_codes (code_hash, app_id, user_id, proof, authentication, redirect_uri, scopes,
         code_challenge, created_at, expires_at)
       select sha256(gen_random_uuid()::text::bytea), (select min(a.id::text)::uuid from private.apps a), $1,
         private.handoff_proof(jsonb_build_object('user', $1::uuid)),
         row(n, 'aal1', '{pwd}')::private.openid_authentication, 'https://app.example/cb', '{openid}', repeat('a', 43), n,
         n + interval '1 minute'
       from t`,
    ],
    [
      "deviceLogins",
      `insert into private.device_authorizations (device_code_hash, user_code, app_id, scopes, user_id, proof, created_at,
         expires_at)
       select sha256(gen_random_uuid()::text::bytea),
         translate(left(md5(gen_random_uuid()::text), 8), '0123456789abcdef', 'BCDFGHJKLMNPQRST'),
         (select min(a.id::text)::uuid from private.apps a), '{openid}', $1,
         private.handoff_proof(jsonb_build_object('user', $1::uuid)), n, n + interval '10 minutes'
       from t`,
    ],
    [
      "openidConsents",
      `, app as (
         insert into private.apps (name, display_name, kind, scopes)
         select 'client-' || substr(md5(gen_random_uuid()::text), 1, 12), 'Client', 'openid', '{profile}' from t
         returning id
       )
       insert into private.openid_consents (user_id, app_id, scopes, granted_at)
       select $1, a.id, '{openid}', t.n
       from (select n, row_number() over (order by n) as place from t) as t
       join (select id, row_number() over (order by id) as place from app) as a using (place)`,
    ],
    [
      "agentConnections",
      `insert into ai.agent_connections (workspace_id, user_id, tool, host, created_at)
       select w.id, $1, 'claude', 'laptop', n from t, public.workspaces w where w.created_by = $1`,
    ],
    [
      "agentAccess",
      `, place as (
         insert into public.workspaces (name, created_by) select 'W', $1 from t returning id
       )
       insert into ai.agent_access (workspace_id, user_id, tool, host, requested_at)
       select p.id, $1, 'claude', 'laptop', t.n
       from (select n, row_number() over (order by n) as place from t) as t
       join (select id, row_number() over (order by id) as place from place) as p using (place)`,
    ],
    [
      "serviceAccounts",
      `insert into private.service_accounts (name, scopes, created_by, created_at, expires_at)
       select gen_random_uuid()::text, '{admin:audit:read}', $1, n, n + interval '1 year' from t`,
    ],
  ] as const)("an account's export contains each of its %s once, paged or in full", async ([part, insert], { db }) => {
    const { sub } = await createActor(db, {});
    // Four rows share a timestamp, so that a page ends among them.
    await db.query(
      `with t (n) as (select now() - make_interval(days => i / 4) from generate_series(1, 7) as i) ${insert}`,
      [sub],
    );
    const whole = ((await exportAccount(db, sub))?.[part] ?? []) as { id: string }[];
    expect(whole.length).toBeGreaterThanOrEqual(7);
    const pages: { id: string }[] = [];
    for (let after: unknown = null; ; after = pages.at(-1)) {
      const rows = await db.asRole("service_role", () =>
        db.query<{ record: { id: string } }>("select private.export_account_part($1, $2, $3, 3) as record", [
          sub,
          part,
          after,
        ]),
      );
      pages.push(...rows.map(({ record }) => record));
      if (rows.length < 3) break;
    }
    expect(pages).toEqual(whole);
    expect(new Set(pages.map(({ id }) => id)).size).toBe(whole.length);
    const head = await db.asRole("service_role", () =>
      one<{ head: Record<string, unknown> }>(db, {
        sql: "select private.export_account($1, false) as head",
        values: [sub],
      }),
    );
    expect(head.head[part]).toEqual([]);
  });

  test("an account's export contains no secret", async ({ db }) => {
    const user = await createUser(db);
    await enrollFactor(db, { userId: user.id });
    await db.query(
      "update auth.users set encrypted_password = '$2a$10$secret', recovery_token = 'pending' where id = $1",
      [user.id],
    );
    const { secret } = await one<{ secret: string }>(db, {
      sql: "select secret from auth.mfa_factors where user_id = $1",
      values: [user.id],
    });
    const text = JSON.stringify(await exportAccount(db, user.id));
    for (const hidden of ["$2a$10$secret", "pending", secret]) expect(text).not.toContain(hidden);
  });

  test("an account's export contains nothing of another account, and is null if the account doesn't exist", async ({
    db,
  }) => {
    const [mine, other] = [await createUser(db), await createUser(db)];
    expect(JSON.stringify(await exportAccount(db, mine.id))).not.toContain(other.id);
    expect(await exportAccount(db, crypto.randomUUID())).toBeNull();
  });

  test("an account's paged export contains the runs of the person's own sessions, but not the runs of keys", async ({
    db,
  }) => {
    const { id: workspaceId, owner } = await createWorkspace(db);
    await db.query(
      `insert into ai.runs (id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature,
         request_id, model_id, routes, markup, status, usage_source, settled_at, reserved_usd, reserved_credits)
       select gen_random_uuid(), now() - make_interval(secs => n), $1, $2,
         case when n = 3 then 'key' else 'session' end, 'interactive', 'chat', 'r' || n, 'm', '[]', 1, 'succeeded',
         'provider', now(), 0, 0
       from generate_series(0, 4) n`,
      [workspaceId, owner.sub],
    );
    const seen: string[] = [];
    let before: unknown = null;
    for (;;) {
      const rows = await db.asRole("service_role", () =>
        db.query<{ run: { requestId: string } }>("select private.export_account_runs($1, $2, 2) as run", [
          owner.sub,
          before,
        ]),
      );
      seen.push(...rows.map(({ run }) => run.requestId));
      before = rows.at(-1)?.run;
      if (rows.length < 2) break;
    }
    expect(seen).toEqual(["r0", "r1", "r2", "r4"]);
  });

  test.for([
    { visible: true, costUsd: "0.250000000000" },
    { visible: false, costUsd: null },
  ])(
    "an account's export includes provider cost only if the workspace shows provider costs (shown: $visible)",
    async ({ visible, costUsd }, { db }) => {
      const { id: workspaceId, owner } = await createWorkspace(db);
      await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)", [
        workspaceId,
        visible,
      ]);
      await db.query(
        `insert into ai.runs (id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature,
         request_id, model_id, routes, markup, status, usage_source, settled_at, reserved_usd, reserved_credits, cost_usd)
       values (gen_random_uuid(), now(), $1, $2, 'session', 'interactive', 'chat', 'r', 'm', '[]', 1, 'succeeded',
         'provider', now(), 0, 0, 0.25)`,
        [workspaceId, owner.sub],
      );
      const [row] = await db.asRole("service_role", () =>
        db.query<{ run: { costUsd: string | null } }>("select private.export_account_runs($1) as run", [owner.sub]),
      );
      expect(row?.run.costUsd).toBe(costUsd);
    },
  );
});

/** Columns that identify a person and are left out of the person's export, with the reason. */
const outsideExports: Record<string, string> = {
  "private.infrastructure_admins.user_id": "an office of the operator, kept in the operator's own log",
  "private.finance_people.user_id": "an office of the operator, kept in the operator's own log",
  "private.console_notices.user_id": "a choice that belongs to the operator's office",
  "private.infrastructure_admins.granted_by": "an act of the operator's office",
  "private.account_invitations.invited_by": "an act of the operator's office",
  "private.account_deletions.requested_by": "an act of the operator's office",
  "private.account_deletions.user_id": "the operator's record; the activity has the reason and the time",
  "private.app_workspaces.linked_by": "an act of the operator's office",
  "private.admin_audit_log.actor_id": "an act of the operator's office",
  "private.admin_audit_log.target_user_id": "the operator's log, which outlives the account",
  "public.workspaces.created_by": "the workspace itself is listed where the person is in it",
  "public.workspace_audit_log.actor_id": "the workspace's log, which its owners read",
  "private.address_blocks.lifted_by": "an act of the operator's office",
  "private.recovery_overrides.created_by": "an act of the operator's office",
  "private.recovery_overrides.revoked_by": "an act of the operator's office",
  "private.recovery_events.actor_id": "an act of the operator's office",
  "private.recovery_events.user_id": "the operator's log, which outlives the account",
  "private.account_search.user_id": "a copy of the email and name, which are in the export",
  "private.announced_additions.user_id": "an addition under way, gone within a minute",
  "private.password_replacements.user_id": "what a session has yet to do; the session itself is listed",
  "private.oauth_attempts.user_id": "a visit to a provider's page under way, gone within minutes",
  "private.account_devices.active_user_id": "which of a browser's accounts is in use; the session itself is listed",
  "private.account_additions.user_id": "a browser's sealed copy of a session; the session itself is listed",
  "private.account_vault_entries.user_id": "a browser's sealed copy of a session; the session itself is listed",
  "private.logout_notices.user_id": "a notice to an app, gone once delivered; the login is listed",
  "private.mint_leases.user_id": "a lock while a session is being made, gone within seconds",
  "private.review_drafts.user_id": "a file under review, gone within 15 minutes",
  "private.service_account_credentials.created_by":
    "an act of an admin or of a workspace's manager, which the logs name",
  "ai.workspace_policies.updated_by": "a setting of the workspace",
  "ai.usage_daily.actor_id": "sums of the person's runs, which are exported",
  "ai.envelopes.actor_id": "a limit of the workspace's calls; the runs that it held are exported",
  "ai.envelopes.opened_by": "the same; the workspace's activity names who opened it",
  "ai.envelopes.ended_by": "the same; the workspace's activity names who ended it",
  "ai.refused_calls.actor_id": "the workspace's record of refused calls, gone within eight days",
  "ai.refused_daily.actor_id": "a count of such calls",
  "ai.usage_changes.actor_id": "a change of such a sum, added to it within seconds",
  "ai.cost_imports.imported_by": "the workspace's or the platform's books, whose files outlive the account",
  "ai.key_approvals.approved_by": "an act of the operator's office",
  "ai.agent_access.answered_by": "an act of a key manager, which the workspace's log names",
  "ai.key_approval_requests.requested_by": "the workspace's request, which its Keys page shows",
  "ai.key_approval_requests.admins_emailed_for": "limits the emails about requests, for a day",
};

/** Columns that identify a person, in rows that the person's export includes. */
const exported = [
  "ai.agent_access.user_id",
  "ai.agent_connections.user_id",
  "ai.app_tokens.user_id",
  "ai.credit_accounts.user_id",
  "ai.keys.created_by",
  "ai.runs.actor_id",
  "private.access_confirmations.user_id",
  "private.app_sessions.user_id",
  "private.authorization_codes.user_id",
  "private.cross_app_tokens.user_id",
  "private.device_authorizations.user_id",
  "private.login_challenges.user_id",
  "private.mfa_recovery_codes.user_id",
  "private.openid_consents.user_id",
  "private.openid_grants.user_id",
  "private.service_accounts.created_by",
  "private.unconfirmed_additions.user_id",
  "public.profiles.id",
  "public.security_events.user_id",
  "public.workspace_invitations.accepted_by",
  "public.workspace_invitations.invited_by",
  "public.workspace_members.user_id",
  "public.workspaces.personal_user_id",
];

test("every column that identifies a person is in their export, or is listed with a reason for its omission", async ({
  db,
}) => {
  const rows = await db.query<{ name: string }>(`
    select distinct format('%s.%s.%s', n.nspname, c.relname, a.attname) as name
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    left join pg_constraint k on k.conrelid = c.oid and k.contype = 'f' and k.conkey = array[a.attnum]
      and k.confrelid in ('auth.users'::regclass, 'public.profiles'::regclass)
    where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p') and not c.relispartition
      and (k.oid is not null or (a.attname in ('user_id', 'actor_id', 'account_user_id', 'imported_by') and a.atttypid = 'uuid'::regtype))`);
  expect(rows.map(({ name }) => name).sort()).toEqual([...exported, ...Object.keys(outsideExports)].sort());
});

test("users can't call the functions that delete or export an account", async ({ db }) => {
  const claims = await createActor(db, {});
  for (const call of ["delete_account($1, 'r')", "export_account($1)", "export_account_runs($1)"])
    expect(
      (await failureOf(() => db.asUser(claims, () => db.query(`select private.${call}`, [claims.sub])))).code,
    ).toBe("42501");
});
