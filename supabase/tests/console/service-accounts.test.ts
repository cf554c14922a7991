import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { listAdminOperations } from "../../../remix-app/admin-api/table.ts";
import { createUser, type Database, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { createAdmin } from "./fixtures.ts";

type Answer = { refused?: string };

const changes = listAdminOperations().flatMap(({ change, scope }) => (change ? [{ change, scope }] : []));
/** The scope that each change of the console requires from a service account. */
const scopes: Record<string, string> = Object.fromEntries(
  changes.flatMap(({ change, scope }) =>
    scope === "person" || scope === "books" ? [] : [[change, `admin:${scope}`] as const],
  ),
);

/** The changes that only a person may make. */
const forPeople = [...new Set(changes.flatMap(({ change, scope }) => (scope === "person" ? [change] : [])))];

const names = Object.keys(scopes);
const allScopes = [...new Set(Object.values(scopes))];

/** Calls a change as our server does, with a token of all scopes. An error after the gate counts as passing it. */
async function ask(db: Database, { name, change }: { name: string; change: object }): Promise<Answer> {
  await db.query("savepoint call");
  try {
    const stamped = JSON.stringify({
      ...{ reason: "test", requestId: "request-1", ip: "192.0.2.1", serviceAccountScopes: allScopes },
      ...change,
    });
    const [row] = await db.asRole("service_role", () =>
      db.query<{ answer: Answer }>(`select private.${name}($1) as answer`, [stamped]),
    );
    return row?.answer ?? {};
  } catch (error) {
    return { refused: `error: ${(error as Error).message}` };
  } finally {
    await db.query("rollback to savepoint call");
  }
}

async function createServiceAccount(db: Database, fields: Record<string, unknown> = {}): Promise<string> {
  const [row] = await db.query<{ id: string }>(
    `insert into private.service_accounts (workspace_id, name, scopes, enabled, created_by, expires_at, revoked_at)
      values ($1, gen_random_uuid()::text, $2, $3, $4, now() + $5::interval, $6) returning id`,
    [
      fields.workspaceId ?? null,
      fields.scopes ?? (fields.workspaceId ? ["use_ai_studio"] : allScopes),
      fields.enabled ?? true,
      fields.createdBy ?? null,
      fields.expiresIn ?? "1 day",
      fields.revokedAt ?? null,
    ],
  );
  if (!row) throw new Error("no service account was created");
  return row.id;
}

describe("who may change the console", () => {
  test("every change that a service account may make is an operation with its scope", async ({ db }) => {
    const found = await db.query<{ name: string; scope: string }>(`
      select p.proname as name, (regexp_match(p.prosrc, 'may_change_console\\(change, ''([a-z:]+)''\\)'))[1] as scope
      from pg_proc p
      where p.pronamespace = 'private'::regnamespace and p.prosrc ~ 'may_change_console\\(change, '''
      order by 1`);
    const indirect = ["approval_refusal", "may_change_apps"];
    const direct = Object.fromEntries(
      found.filter(({ name }) => !indirect.includes(name)).map(({ name, scope }) => [name, scope]),
    );
    const through = ["add_openid_client", "change_openid_client", "decline_key_approval", "set_key_approval"];
    expect(direct).toEqual(Object.fromEntries(Object.entries(scopes).filter(([name]) => !through.includes(name))));
  });

  test("a change needs either an infrastructure admin or a service account with the scope", async ({ db }) => {
    const admin = await createAdmin(db);
    const { id: stranger } = await createUser(db);
    const { workspaceId } = await createTenant(db);
    const serviceAccount = await createServiceAccount(db);
    const wrong: Record<string, object> = {
      "the command line": {},
      stranger: { actor: stranger },
      both: { actor: admin.id, serviceAccount },
      "a stranger with a service account": { actor: stranger, serviceAccount },
      "an admin as service account": { serviceAccount: admin.id },
      disabled: { serviceAccount: await createServiceAccount(db, { enabled: false }) },
      expired: { serviceAccount: await createServiceAccount(db, { expiresIn: "0 seconds" }) },
      revoked: { serviceAccount: await createServiceAccount(db, { revokedAt: new Date() }) },
      "of a workspace": { serviceAccount: await createServiceAccount(db, { workspaceId }) },
    };
    for (const name of names) {
      const without = allScopes.filter((scope) => scope !== scopes[name]);
      const all = {
        ...wrong,
        "without the scope": { serviceAccount: await createServiceAccount(db, { scopes: without }) },
        "with a token without the scope": { serviceAccount, serviceAccountScopes: without },
        "with a token without scopes": { serviceAccount, serviceAccountScopes: [] },
        "without a token": { serviceAccount, serviceAccountScopes: null },
      };
      for (const [who, change] of Object.entries(all)) {
        // The command line may change OpenID clients.
        if (who === "the command line" && name.endsWith("openid_client")) continue;
        expect(await ask(db, { name, change }), `${name} by ${who}`).toEqual({ refused: "forbidden" });
      }
      const right = await createServiceAccount(db, { scopes: [scopes[name]] });
      expect(await ask(db, { name, change: { actor: admin.id } }), `${name} by an admin`).not.toEqual({
        refused: "forbidden",
      });
      expect(await ask(db, { name, change: { serviceAccount: right } }), `${name} by a service account`).not.toEqual({
        refused: "forbidden",
      });
    }
  });

  test.for(forPeople)("a service account may not call %s", async (name, { db }) => {
    const serviceAccount = await createServiceAccount(db);
    const answer = await ask(db, { name, change: { serviceAccount, provider: "openai", step: "require" } });
    expect(answer).toEqual({ refused: "forbidden" });
  });

  test("a person gains nothing by a service account that they created or added a credential to", async ({ db }) => {
    const admin = await createAdmin(db);
    const { id: creator } = await createAdmin(db);
    const ofOthers = await createServiceAccount(db, { createdBy: creator });
    const withCredential = await createServiceAccount(db, { createdBy: creator });
    await db.query(
      `insert into private.service_account_credentials (service_account_id, secret_hash, created_by)
       values ($1, sha256($2), $3), ($1, sha256($3::text::bytea), $4)`,
      [withCredential, randomBytes(32), admin.id, creator],
    );
    const own = await createServiceAccount(db, { createdBy: admin.id });
    const [personal] = await db.query<{ id: string; plan: string }>(
      "select w.id, w.plan_id as plan from public.workspaces w where w.personal_user_id = $1",
      [admin.id],
    );
    const app = `own-${admin.id.slice(0, 8)}`;
    await db.query("select private.register_app($1, 'Own', 'external', '{}', '{ai:use}', sha256('own'), 'test')", [
      app,
    ]);
    const [{ version } = {}] = await db.query<{ version?: string }>("select private.app_version($1) as version", [app]);
    const [model] = await db.query<{ id: string }>("select id from ai.models limit 1");
    const changes: [string, object][] = [
      [
        "change_credits",
        { payer: "workspace", ownerId: personal?.id, step: "grant", amount: "5", reference: "r", description: "d" },
      ],
      [
        "change_credits",
        { payer: "member", ownerId: admin.id, step: "grant", amount: "5", reference: "r", description: "d" },
      ],
      ["move_workspace", { workspace: personal?.id, seen: personal?.plan, plan: "free" }],
      ["set_key_approval", { workspace: personal?.id, approved: true }],
      ["sign_account_out", { subject: admin.id }],
      ["change_app", { name: app, version, step: "link", workspace: personal?.id }],
      ["set_model_grant", { model: model?.id, workspace: personal?.id, granted: true }],
      ["ban_account", { subject: admin.id, until: null }],
      ["unban_account", { subject: admin.id }],
      ["request_account_deletion", { subject: admin.id }],
      ["cancel_account_deletion", { subject: admin.id }],
    ];
    for (const [name, change] of changes) {
      for (const who of [{ actor: admin.id }, { serviceAccount: own }, { serviceAccount: withCredential }])
        expect(await ask(db, { name, change: { ...change, ...who } }), name).toEqual({ refused: "oneself" });
      const { refused } = await ask(db, { name, change: { ...change, serviceAccount: ofOthers } });
      expect(["forbidden", "oneself"], name).not.toContain(refused);
    }
  });

  test.for(["sign_account_out", "ban_account", "request_account_deletion"])(
    "a service account may call %s for everybody but people with a role in the console",
    async (name, { db }) => {
      const serviceAccount = await createServiceAccount(db);
      const admin = await createAdmin(db);
      const { id: finance } = await createUser(db);
      await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [finance]);
      const { id: person } = await createUser(db);
      const act = (subject: string) => ask(db, { name, change: { serviceAccount, subject } });
      expect(await act(admin.id)).toEqual({ refused: "protected" });
      expect(await act(finance)).toEqual({ refused: "protected" });
      expect(await act(person)).toEqual({});
    },
  );

  test("a service account that is named like a person is shown as a service account", async ({ db }) => {
    const admin = await createAdmin(db);
    const { id: subject } = await createUser(db);
    const serviceAccount = await createServiceAccount(db);
    await db.query("update private.service_accounts set name = $1 where id = $2", [admin.email, serviceAccount]);
    const change = { serviceAccount, serviceAccountScopes: allScopes, subject, reason: "test", until: null };
    await db.query("select private.ban_account($1)", [JSON.stringify(change)]);
    const test = { serviceAccount, provider: "demo", model: "m", result: "answered", requestId: "r", ip: "192.0.2.1" };
    await db.asRole("service_role", () => db.query("select private.record_provider_test($1)", [JSON.stringify(test)]));
    await db.query(
      "update private.service_accounts set scopes = scopes || '{admin:audit:read}' where id = $1 and not 'admin:audit:read' = any (scopes)",
      [serviceAccount],
    );
    const label = `Service account ${admin.email}`;
    const read = async (sql: string, values: unknown[]) =>
      (await db.query<{ answer: unknown }>(sql, values))[0]?.answer;
    for (const actor of [admin.email, label])
      expect(
        await read("select private.search_audit_log('{}', $1, service_account => $2) as answer", [
          JSON.stringify({ actor }),
          serviceAccount,
        ]),
      ).toMatchObject(
        expect.arrayContaining([
          expect.objectContaining({ action: "account.ban", actorEmail: label, serviceAccountId: serviceAccount }),
          expect.objectContaining({
            ...{ action: "provider.test", actorEmail: label, serviceAccountId: serviceAccount },
            ...{ reason: "Route test", target: "provider demo", after: { model: "m", result: "answered" } },
          }),
        ]),
      );
    expect(
      await read("select jsonb_path_query_array(private.account_timeline($1), '$.actorEmail') as answer", [subject]),
    ).toContain(label);
    expect(await read("select private.last_admin_action('provider demo') as answer", [])).toMatchObject({
      actorEmail: label,
    });
    expect(await read("select private.actor_name($1) as answer", [serviceAccount])).toBe(label);
    expect(await read("select ai.closer_name($1) as answer", [serviceAccount])).toBe(label);
  });

  test("the audit log names the service account, also after it is gone", async ({ db }) => {
    const { workspaceId } = await createTenant(db);
    const serviceAccount = await createServiceAccount(db);
    await db.query("update private.service_accounts set name = 'deployments' where id = $1", [serviceAccount]);
    const caller = { serviceAccount, serviceAccountScopes: ["admin:workspaces:write"] };
    const change = { ...caller, payer: "workspace", ownerId: workspaceId, step: "grant", amount: "5" };
    const stamped = { ...change, reference: "r", description: "d", reason: "test", requestId: "request-1" };
    await db.asRole("service_role", () => db.query("select private.change_credits($1)", [JSON.stringify(stamped)]));
    await db.query("delete from private.service_accounts where id = $1", [serviceAccount]);
    expect(
      await db.query(
        `select actor_id, service_account_id, service_account_name
          from private.admin_audit_log where target = $1`,
        [`workspace ${workspaceId}`],
      ),
    ).toEqual([{ actor_id: null, service_account_id: serviceAccount, service_account_name: "deployments" }]);
  });
});
