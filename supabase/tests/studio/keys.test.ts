import { createHash, randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf, workspaceRoles } from "../actors.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import { addKey, begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Answer = { outcome: string; key?: Record<string, unknown>; keys?: Record<string, unknown>[]; approval?: unknown };

const secret = () => createHash("sha256").update(randomBytes(32)).digest("hex");
const lookup = () => randomBytes(6).toString("hex");

const call = (db: Database, sql: string, values: unknown[]) =>
  db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
  );

const issue = (db: Database, { workspaceId, ownerId }: Pick<Tenant, "workspaceId" | "ownerId">, key: object = {}) =>
  call(db, "ai.issue_key($1, $2, $3, $4, $5)", [ownerId, workspaceId, { name: "K", ...key }, lookup(), secret()]);

const rotate = (db: Database, tenant: Tenant, { keyId, overlap = 0 }: { keyId: string; overlap?: number }) =>
  call(db, "ai.rotate_key($1, $2, $3, $4, $5, $6)", [
    tenant.ownerId,
    tenant.workspaceId,
    keyId,
    overlap,
    lookup(),
    secret(),
  ]);

const list = (db: Database, { workspaceId, ownerId }: Tenant) =>
  call(db, "ai.list_keys($1, $2)", [ownerId, workspaceId]);
const revoke = (db: Database, tenant: Tenant, keyId: string) =>
  call(db, "ai.revoke_key($1, $2, $3)", [tenant.ownerId, tenant.workspaceId, keyId]);

describe("issuing a key", () => {
  test("only roles with the permission manage_ai_keys can issue a key", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const allowed = (permissions as readonly string[]).includes("manage_ai_keys");
      const { outcome } = await issue(db, { workspaceId: tenant.workspaceId, ownerId: member.sub });
      expect(outcome, role).toBe(allowed ? "issued" : "not_allowed");
    }
  });

  test("issuing a key requires the workspace's approval; listing and revoking keys don't, and existing keys stay valid", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await db.query("delete from ai.key_approvals where workspace_id = $1", [tenant.workspaceId]);
    expect((await issue(db, tenant)).outcome).toBe("not_approved");
    expect((await rotate(db, tenant, { keyId: tenant.keyId })).outcome).toBe("not_approved");
    const listed = await list(db, tenant);
    expect(listed).toMatchObject({ outcome: "listed", approval: null, keys: [{ id: tenant.keyId, state: "active" }] });
    expect((await revoke(db, tenant, tenant.keyId)).outcome).toBe("revoked");
  });

  test("issuing a key stores the given settings, and the answer contains no hash", async ({ db }) => {
    const tenant = await createTenant(db);
    const { key } = await issue(db, tenant, {
      name: "Billing",
      environment: "staging",
      allowedModels: [tenant.model],
      allowedAddresses: ["192.0.2.0/24", "2001:db8::1"],
      requestsPerMinute: 5,
      tokensPerMinute: 1000,
      monthlyBudgetUsd: "12.5",
      strict: true,
    });
    expect(key).toMatchObject({
      name: "Billing",
      environment: "staging",
      allowedModels: [tenant.model],
      allowedAddresses: ["192.0.2.0/24", "2001:db8::1/128"],
      requestsPerMinute: 5,
      tokensPerMinute: 1000,
      strict: true,
      state: "active",
      budget: { limitUsd: "12.5", spentUsd: "0" },
    });
    expect(JSON.stringify(key)).not.toMatch(/hash/i);
  });

  test("binds a key to an app only if the app is linked to the workspace", async ({ db }) => {
    const tenant = await createTenant(db);
    const { id: app } = await one<{ id: string }>(db, {
      sql: "insert into private.apps (name, display_name, kind) values ('x' || substr(gen_random_uuid()::text, 1, 8), 'X', 'external') returning id",
    });
    expect((await issue(db, tenant, { externalAppId: app })).outcome).toBe("app_not_linked");
    await db.query("insert into private.app_workspaces (app_id, workspace_id) values ($1, $2)", [
      app,
      tenant.workspaceId,
    ]);
    expect((await issue(db, tenant, { externalAppId: app })).key).toMatchObject({ externalApp: { id: app } });
  });

  test.for(["gpt-4o-typo", "DEMO-CHAT", "demo-chat ", "demo-*"])(
    "refuses to create a key with the unknown model %j, and names the model",
    async (typo, { db }) => {
      const tenant = await createTenant(db);
      const refused = { outcome: "unknown_models", param: "allowedModels", models: [typo] };
      expect(await issue(db, tenant, { allowedModels: ["demo-chat", typo] })).toEqual(refused);
      expect((await list(db, tenant)).keys).toHaveLength(1);
      expect((await issue(db, tenant, { allowedModels: ["demo-chat"] })).outcome).toBe("issued");
      expect((await issue(db, tenant, { allowedModels: [] })).outcome).toBe("issued");
    },
  );

  test("the database function that creates keys also refuses an unknown model", async ({ db }) => {
    const tenant = await createTenant(db);
    const create = (model: string) =>
      db.query(
        `select ai.create_key(workspace_id => $1, created_by => $2, name => 'K', lookup => $3, secret_hash => $4,
           allowed_models => $5)`,
        [tenant.workspaceId, tenant.ownerId, lookup(), randomBytes(32), [model]],
      );
    await create("demo-chat");
    const failure = await failureOf(() => create("gpt-4o-typo"));
    expect([failure.code, failure.message]).toEqual(["22023", "unknown models: gpt-4o-typo"]);
  });

  test("refuses more than 200 live keys per workspace", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query(
      `insert into ai.keys (workspace_id, lineage_id, name, lookup, secret_hash)
       select $1::uuid, gen_random_uuid(), 'k', substr(md5(n || $1::text), 1, 12), sha256((n || $1::text)::bytea)
       from generate_series(1, 198) n`,
      [tenant.workspaceId],
    );
    expect((await issue(db, tenant)).outcome).toBe("issued");
    expect((await issue(db, tenant)).outcome).toBe("too_many");
  });
});

describe("rotating a key", () => {
  test("a rotated key's successor keeps its limits, app and spend, and the old key works until the overlap ends", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { key: { requestsPerMinute: 7, monthlyBudgetUsd: "3" } });
    await db.query("update ai.budgets set spent_usd = 1.25 where subject_id = $1", [tenant.keyId]);
    const { key } = await rotate(db, tenant, { keyId: tenant.keyId, overlap: 86_400 });
    expect(key).toMatchObject({ requestsPerMinute: 7, budget: { limitUsd: "3", spentUsd: "1.25" }, state: "active" });
    const old = await one(db, {
      sql: "select revoked_at, expires_at = now() + interval '86400 seconds' as ends, replaced_by from ai.keys where id = $1",
      values: [tenant.keyId],
    });
    expect(old).toEqual({ revoked_at: null, ends: true, replaced_by: key?.id });
    const lineages = await db.query("select distinct lineage_id from ai.keys where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect(lineages).toHaveLength(1);
  });

  test("a rotated key's successor keeps an allowed model that has left the catalogue", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("update ai.keys set allowed_models = '{gone}' where id = $1", [tenant.keyId]);
    const { outcome, key } = await rotate(db, tenant, { keyId: tenant.keyId });
    expect([outcome, key?.allowedModels]).toEqual(["issued", ["gone"]]);
  });

  test("a rotated key's successor keeps strict mode", async ({ db }) => {
    const tenant = await createTenant(db);
    const { key } = await issue(db, tenant, { strict: true });
    const rotated = await rotate(db, tenant, { keyId: String(key?.id) });
    expect([key?.strict, rotated.key?.strict]).toEqual([true, true]);
    const { key: ordinary } = await issue(db, tenant);
    expect(ordinary?.strict).toBe(false);
  });

  test("rotation revokes the old key immediately if no overlap is given, and each key can be rotated only once", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    expect((await rotate(db, tenant, { keyId: tenant.keyId })).outcome).toBe("issued");
    expect((await rotate(db, tenant, { keyId: tenant.keyId })).outcome).toBe("not_active");
    const states = (await list(db, tenant)).keys?.map(({ state }) => state);
    expect(states?.sort()).toEqual(["active", "revoked"]);
  });

  test("rotation never extends the old key's lifetime", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("update ai.keys set expires_at = now() + interval '10 seconds' where id = $1", [tenant.keyId]);
    await rotate(db, tenant, { keyId: tenant.keyId, overlap: 60 });
    const { ends } = await one<{ ends: boolean }>(db, {
      sql: "select expires_at = now() + interval '10 seconds' as ends from ai.keys where id = $1",
      values: [tenant.keyId],
    });
    expect(ends).toBe(true);
  });

  test("a key whose creator has left is charged to the person who rotates it", async ({ db }) => {
    const tenant = await createTenant(db);
    const leaver = await createUser(db);
    await join(db, { workspaceId: tenant.workspaceId, userId: leaver.id, role: "admin" });
    const { key } = await issue(db, { ...tenant, ownerId: leaver.id });
    await db.query("delete from public.workspace_members where user_id = $1 and workspace_id = $2", [
      leaver.id,
      tenant.workspaceId,
    ]);
    const rotated = await rotate(db, tenant, { keyId: String(key?.id) });
    const row = await one(db, { sql: "select created_by from ai.keys where id = $1", values: [rotated.key?.id] });
    expect(row).toEqual({ created_by: tenant.ownerId });
  });

  test("fifty concurrent rotations of a key create one successor", async () => {
    const { db, close } = openPool(50);
    const tenant = await createTenant(db);
    try {
      const answers = await Promise.all(
        Array.from({ length: 50 }, async () => {
          const row = await one<{ answer: Answer }>(db, {
            sql: "select ai.rotate_key($1, $2, $3, 0, $4, $5) as answer",
            values: [tenant.ownerId, tenant.workspaceId, tenant.keyId, lookup(), secret()],
          });
          return row.answer.outcome;
        }),
      );
      expect(answers.filter((outcome) => outcome === "issued")).toHaveLength(1);
      expect(answers.filter((outcome) => outcome === "not_active")).toHaveLength(49);
    } finally {
      await db.query("delete from auth.users where id = $1", [tenant.ownerId]);
      await close();
    }
  });
});

const change = (
  db: Database,
  { workspaceId, ownerId }: Pick<Tenant, "workspaceId" | "ownerId">,
  { keyId, changes, version = null }: { keyId: string; changes: object; version?: unknown },
) => call(db, "ai.change_key($1, $2, $3, $4, $5)", [ownerId, workspaceId, keyId, changes, version]);

const withdrawApproval = (db: Database, { workspaceId }: Tenant) =>
  db.query("delete from ai.key_approvals where workspace_id = $1", [workspaceId]);

describe("changing a key", () => {
  const limited = {
    expiresAt: "2099-01-01T00:00:00.000Z",
    allowedModels: ["demo-chat"],
    allowedAddresses: ["192.0.2.0/24"],
    requestsPerMinute: 5,
    tokensPerMinute: 1000,
    strict: true,
  };

  test.for([
    ["a later expiry", { expiresAt: "2099-01-01T00:00:01Z" }, true],
    ["no expiry", { expiresAt: null }, true],
    ["an earlier expiry", { expiresAt: "2098-12-31T00:00:00Z" }, false],
    ["another model", { allowedModels: ["demo-chat", "demo-long"] }, true],
    ["all models", { allowedModels: null }, true],
    ["no model", { allowedModels: [] }, false],
    ["another address", { allowedAddresses: ["192.0.2.0/24", "198.51.100.1"] }, true],
    ["a wider network", { allowedAddresses: ["192.0.0.0/16"] }, true],
    ["all addresses", { allowedAddresses: null }, true],
    ["an address of the network", { allowedAddresses: ["192.0.2.7"] }, false],
    ["more requests", { requestsPerMinute: 6 }, true],
    ["unlimited requests", { requestsPerMinute: null }, true],
    ["fewer requests", { requestsPerMinute: 4 }, false],
    ["more tokens", { tokensPerMinute: 1001 }, true],
    ["unlimited tokens", { tokensPerMinute: null }, true],
    ["fewer tokens", { tokensPerMinute: 999 }, false],
    ["no strict mode", { strict: false }, true],
    ["another name", { name: "Renamed", environment: "staging" }, false],
    ["a smaller budget", { monthlyBudgetUsd: "1" }, false],
  ] as const)(
    "%s needs the workspace's approval only if the key allows more: %j",
    async ([, changes, allowsMore], { db }) => {
      const tenant = await createTenant(db);
      const { key } = await issue(db, tenant, limited);
      const keyId = String(key?.id);
      await withdrawApproval(db, tenant);
      const refused = await change(db, tenant, { keyId, changes });
      expect(refused.outcome).toBe(allowsMore ? "not_approved" : "changed");
      if (!allowsMore) return;
      const { key: unchanged } = await call(db, "ai.read_key($1, $2, $3)", [tenant.ownerId, tenant.workspaceId, keyId]);
      expect(unchanged).toEqual(key);
      await db.query("insert into ai.key_approvals (workspace_id, approved_by) values ($1, $2)", [
        tenant.workspaceId,
        tenant.ownerId,
      ]);
      expect((await change(db, tenant, { keyId, changes })).outcome).toBe("changed");
    },
  );

  test("changes only the given settings, and logs what changed", async ({ db }) => {
    const tenant = await createTenant(db);
    const { key } = await issue(db, tenant, { ...limited, name: "Nightly" });
    const keyId = String(key?.id);
    const changed = await change(db, tenant, {
      keyId,
      changes: { name: "Weekly", expiresAt: null, monthlyBudgetUsd: "12.5" },
      version: key?.version,
    });
    const unchanged = {
      allowedModels: ["demo-chat"],
      allowedAddresses: ["192.0.2.0/24"],
      requestsPerMinute: 5,
      strict: true,
    };
    expect(changed.key).toMatchObject({ ...unchanged, name: "Weekly", expiresAt: null, budget: { limitUsd: "12.5" } });
    const entries = await db.query(
      `select action, actor_id, subject, details from public.workspace_audit_log
       where workspace_id = $1 and action in ('key.changed', 'budget.changed') order by id`,
      [tenant.workspaceId],
    );
    expect(entries).toEqual([
      {
        action: "key.changed",
        actor_id: tenant.ownerId,
        subject: "Weekly",
        details: {
          name: { before: "Nightly", after: "Weekly" },
          expiresAt: { before: "2099-01-01T00:00:00.000Z", after: null },
        },
      },
      {
        action: "budget.changed",
        actor_id: tenant.ownerId,
        subject: "Weekly",
        details: { scope: "key", before: null, after: "12.5" },
      },
    ]);
    await change(db, tenant, { keyId, changes: { name: "Weekly" } });
    const changes = "select from public.workspace_audit_log where action = 'key.changed' and workspace_id = $1";
    expect(await db.query(changes, [tenant.workspaceId])).toHaveLength(1);
  });

  test("only roles with the permission manage_ai_keys can change a key", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const asMember = { workspaceId: tenant.workspaceId, ownerId: member.sub };
      const { outcome } = await change(db, asMember, { keyId: tenant.keyId, changes: { name: role } });
      const allowed = (permissions as readonly string[]).includes("manage_ai_keys");
      expect(outcome, role).toBe(allowed ? "changed" : "not_allowed");
    }
  });

  test.for([
    ["revoked", "revoked_at = now()"],
    ["expired", "expires_at = now()"],
  ])("a key that is %s can't be changed, so it can't work again", async ([, state], { db }) => {
    const tenant = await createTenant(db);
    await db.query(`update ai.keys set ${state} where id = $1`, [tenant.keyId]);
    const changes = { expiresAt: "2099-01-01T00:00:00Z" };
    expect((await change(db, tenant, { keyId: tenant.keyId, changes })).outcome).toBe("not_active");
  });

  test("a key that was replaced can't be changed", async ({ db }) => {
    const tenant = await createTenant(db);
    await rotate(db, tenant, { keyId: tenant.keyId, overlap: 3600 });
    expect((await change(db, tenant, { keyId: tenant.keyId, changes: { name: "x" } })).outcome).toBe("not_active");
  });

  test("refuses an unknown model, but keeps one that has left the catalogue", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("update ai.keys set allowed_models = '{gone,demo-chat}' where id = $1", [tenant.keyId]);
    const allow = (allowedModels: string[]) => change(db, tenant, { keyId: tenant.keyId, changes: { allowedModels } });
    const refused = { outcome: "unknown_models", param: "allowedModels", models: ["gpt-4o-typo"] };
    expect(await allow(["gone", "gpt-4o-typo"])).toEqual(refused);
    expect((await allow(["gone"])).outcome).toBe("changed");
  });

  test.for(["settings", "budget"])(
    "changes nothing if somebody else has changed the key's %s in the meantime",
    async (what, { db }) => {
      const tenant = await createTenant(db);
      const { key } = await issue(db, tenant);
      const keyId = String(key?.id);
      const first = what === "budget" ? { monthlyBudgetUsd: "7" } : { name: "Theirs" };
      const theirs = await change(db, tenant, { keyId, changes: first, version: key?.version });
      const mine = await change(db, tenant, { keyId, changes: { name: "Mine" }, version: key?.version });
      expect(mine).toEqual({ outcome: "changed_meanwhile", key: theirs.key });
      const again = await change(db, tenant, { keyId, changes: { name: "Mine" }, version: theirs.key?.version });
      expect(again.key?.name).toBe("Mine");
    },
  );

  test("of ten concurrent changes that saw the same state, one is made", async () => {
    const { db, close } = openPool(10);
    const tenant = await createTenant(db);
    try {
      const { version } = await one<{ version: string }>(db, {
        sql: "select ai.key_version(k) as version from ai.keys k where k.id = $1",
        values: [tenant.keyId],
      });
      const answers = await Promise.all(
        Array.from({ length: 10 }, async (_, place) => {
          const row = await one<{ answer: Answer }>(db, {
            sql: "select ai.change_key($1, $2, $3, $4, $5) as answer",
            values: [tenant.ownerId, tenant.workspaceId, tenant.keyId, { name: `Name ${place}` }, version],
          });
          return row.answer.outcome;
        }),
      );
      expect(answers.filter((outcome) => outcome === "changed")).toHaveLength(1);
      expect(answers.filter((outcome) => outcome === "changed_meanwhile")).toHaveLength(9);
    } finally {
      await db.query("delete from auth.users where id = $1", [tenant.ownerId]);
      await close();
    }
  });
});

describe("the list of a workspace's keys", () => {
  test("nests replaced keys below the key that works, newest first", async ({ db }) => {
    const tenant = await createTenant(db);
    const { key: second } = await rotate(db, tenant, { keyId: tenant.keyId });
    const { key: third } = await rotate(db, tenant, { keyId: String(second?.id), overlap: 60 });
    const nested = await call(db, "ai.list_keys($1, $2, nested => true)", [tenant.ownerId, tenant.workspaceId]);
    const replaced = [
      { id: second?.id, lineageId: tenant.keyId, state: "replaced", spentThisMonthUsd: null },
      { id: tenant.keyId, lineageId: tenant.keyId, state: "revoked", spentThisMonthUsd: null },
    ];
    expect(nested.keys).toMatchObject([{ id: third?.id, lineageId: tenant.keyId, spentThisMonthUsd: "0", replaced }]);
    expect((await list(db, tenant)).keys).toHaveLength(3);
  });

  test("counts the budget's spend once", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "3" } });
    await db.query("update ai.budgets set spent_usd = 1.25 where subject_id = $1", [tenant.keyId]);
    const { key } = await rotate(db, tenant, { keyId: tenant.keyId, overlap: 60 });
    const budgets = new Map((await list(db, tenant)).keys?.map(({ id, budget }) => [id, budget]));
    expect(budgets.get(key?.id)).toEqual({ limitUsd: "3", spentUsd: "1.25" });
    expect(budgets.get(tenant.keyId)).toEqual({ limitUsd: "3", spentUsd: null });
  });
});

describe("a key's spend this month", () => {
  const spentBy = async (db: Database, tenant: Tenant) =>
    (await list(db, tenant)).keys?.map(({ id, spentThisMonthUsd }) => [id, spentThisMonthUsd]);

  test("a key's monthly spend includes the keys that it replaced but no other keys, and ai.describe_credential returns the same amount", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const other = await addKey(db, tenant);
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    const { key } = await rotate(db, tenant, { keyId: tenant.keyId, overlap: 60 });
    expect(key?.spentThisMonthUsd).toBe("0.00000615");
    const told = await one<{ spent: string }>(db, {
      sql: "select ai.describe_credential($1) #>> '{spent,costUsd}' as spent",
      values: [JSON.stringify(chatCall(tenant))],
    });
    expect(told.spent).toBe("0.00000615");
    expect(new Map((await spentBy(db, tenant)) as [string, string | null][])).toEqual(
      new Map([
        [key?.id, "0.00000615"],
        // The amount is counted once, with the key that works.
        [tenant.keyId, null],
        [other.id, "0"],
      ]),
    );
  });

  test("a key's monthly spend counts runs from the first instant of the UTC month", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const add = (at: string, usd: number) =>
      db.query(
        `insert into ai.runs (id, created_at, workspace_id, actor_id, key_id, key_lineage_id, credential_source,
           execution_mode, feature, request_id, model_id, routes, markup, status, usage_source, settled_at, reserved_usd,
           reserved_credits, cost_usd)
         select gen_random_uuid(), ${at}, $1, $2, $3, $3, 'key', 'background', 'chat', 'r', 'm', '[]', 1, 'succeeded',
           'provider', now(), 0, 0, $4`,
        [tenant.workspaceId, tenant.ownerId, tenant.keyId, usd],
      );
    await add("date_trunc('month', now(), 'UTC') - interval '1 microsecond'", 1);
    expect(await spentBy(db, tenant)).toEqual([[tenant.keyId, "0"]]);
    await add("date_trunc('month', now(), 'UTC')", 0.25);
    expect(await spentBy(db, tenant)).toEqual([[tenant.keyId, "0.25"]]);
  });

  test("a key's monthly spend is hidden if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect(await spentBy(db, tenant)).toEqual([[tenant.keyId, null]]);
  });
});

test("only people who manage a workspace's keys can read a key and the workspace's approval", async ({ db }) => {
  const [tenant, other] = [await createTenant(db), await createTenant(db)];
  const read = (reader: Tenant, keyId: string) =>
    call(db, "ai.read_key($1, $2, $3)", [reader.ownerId, reader.workspaceId, keyId]);
  const [listed] = (await list(db, tenant)).keys ?? [];
  expect(await read(tenant, tenant.keyId)).toEqual({ outcome: "read", approved: true, key: listed });
  await db.query("delete from ai.key_approvals where workspace_id = $1", [tenant.workspaceId]);
  expect(await read(tenant, tenant.keyId)).toMatchObject({ outcome: "read", approved: false });
  expect(await read(other, tenant.keyId)).toEqual({ outcome: "not_found" });
  expect(await read({ ...tenant, ownerId: other.ownerId }, tenant.keyId)).toEqual({ outcome: "not_allowed" });
});

describe("keys", () => {
  test("another workspace's keys can't be read, changed, rotated or revoked", async ({ db }) => {
    const [mine, other] = [await createTenant(db), await createTenant(db)];
    expect((await rotate(db, mine, { keyId: other.keyId })).outcome).toBe("not_found");
    expect((await revoke(db, mine, other.keyId)).outcome).toBe("not_found");
    expect((await change(db, mine, { keyId: other.keyId, changes: { name: "x" } })).outcome).toBe("not_found");
    expect((await call(db, "ai.list_keys($1, $2)", [mine.ownerId, other.workspaceId])).outcome).toBe("not_allowed");
  });

  test("the workspace's log entries for a created and a revoked key contain the key's name", async ({ db }) => {
    const tenant = await createTenant(db);
    const { key } = await issue(db, tenant, { name: "Nightly" });
    await revoke(db, tenant, String(key?.id));
    const rows = await db.query(
      "select action, actor_id, subject from public.workspace_audit_log where workspace_id = $1 and action like 'key.%' order by id",
      [tenant.workspaceId],
    );
    expect(rows).toEqual([
      { action: "key.created", actor_id: tenant.ownerId, subject: "Nightly" },
      { action: "key.revoked", actor_id: tenant.ownerId, subject: "Nightly" },
    ]);
  });

  test("keys can be written only by the functions that manage them", async ({ db }) => {
    const tenant = await createTenant(db);
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "admin" });
    for (const sql of ["update ai.keys set revoked_at = null", "delete from ai.keys"])
      expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
    const direct = () =>
      db.asUser(claims, () => db.query("select ai.list_keys($1, $2)", [claims.sub, tenant.workspaceId]));
    expect((await failureOf(direct)).code).toBe("42501");
  });
});
