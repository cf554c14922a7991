import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { addKey, begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";

type Page = { outcome: string; runs: { id: string; [name: string]: unknown }[]; unknown?: string | null };

const answerOf = <Answer>(db: Database, { sql, values }: { sql: string; values: unknown[] }) =>
  db.asRole("service_role", async () => (await one<{ answer: Answer }>(db, { sql, values })).answer);

const list = (db: Database, { ownerId, workspaceId }: Tenant, filter: object) =>
  answerOf<Page>(db, {
    sql: "select ai.list_runs($1, $2, $3, null, 50, 10000) as answer",
    values: [ownerId, workspaceId, filter],
  });

type Options = {
  outcome: string;
  keys: { id: string; name: string; ended: boolean }[];
  apps: { id: string; name: string }[];
  members: { id: string; name: string }[];
  providers: string[] | null;
};
const options = (db: Database, { ownerId, workspaceId }: Pick<Tenant, "ownerId" | "workspaceId">) =>
  answerOf<Options>(db, { sql: "select ai.list_run_filters($1, $2) as answer", values: [ownerId, workspaceId] });

async function settled(db: Database, tenant: Tenant, changes: object = {}) {
  const run = await begin(db, chatCall(tenant, changes));
  await settle(db, [outcome(run)]);
  return run;
}

const hideCost = (db: Database, { workspaceId }: Tenant) =>
  db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [workspaceId]);

describe("filters of the run list", () => {
  test("runs can be filtered by key, member, provider and label, and show the names of their key and member", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const other = await createUser(db);
    const second = await addKey(db, { workspaceId: tenant.workspaceId, ownerId: other.id });
    const first = await settled(db, tenant, { entity_id: "order-1" });
    const later = await settled(db, { ...tenant, keyHash: second.hash }, { entity_id: "order-2" });
    const found = async (filter: object) => (await list(db, tenant, filter)).runs.map(({ id }) => id);
    expect(await found({ keyId: second.id })).toEqual([later.run_id]);
    expect(await found({ memberId: tenant.ownerId })).toEqual([first.run_id]);
    expect(await found({ memberId: other.id })).toEqual([later.run_id]);
    expect(await found({ entityId: "order-1" })).toEqual([first.run_id]);
    expect(await found({ entityId: "order" })).toEqual([]);
    expect((await found({ provider: "demo" })).toSorted()).toEqual([first.run_id, later.run_id].toSorted());
    expect(await found({ provider: "demo", entityId: "order-2", memberId: tenant.ownerId })).toEqual([]);
    const { display_name } = await one<{ display_name: string }>(db, {
      sql: "select display_name from public.profiles where id = $1",
      values: [other.id],
    });
    expect((await list(db, tenant, { keyId: second.id })).runs).toMatchObject([
      { keyName: "test", memberId: other.id, memberName: display_name, userId: null, appName: null, provider: "demo" },
    ]);
  });

  test("if a run filter names a key, app or member that does not exist, the answer says which", async ({ db }) => {
    const [tenant, stranger] = [await createTenant(db), await createTenant(db)];
    const unknown = async (filter: object) => {
      const { outcome: listed, runs, unknown: name } = await list(db, tenant, filter);
      expect([listed, runs]).toEqual(["listed", []]);
      return name ?? undefined;
    };
    const absent = randomUUID();
    expect(await unknown({ keyId: absent })).toBe("keyId");
    expect(await unknown({ keyId: stranger.keyId })).toBe("keyId");
    expect(await unknown({ appId: absent })).toBe("appId");
    expect(await unknown({ memberId: absent })).toBe("memberId");
    expect(await unknown({ provider: "absent" })).toBe("provider");
    expect(await unknown({ keyId: tenant.keyId, memberId: tenant.ownerId, provider: "demo", entityId: "any" })).toBe(
      undefined,
    );
  });

  test("finds the runs of a deleted app and those of a deleted account", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await settled(db, tenant);
    const [appId, memberId] = [randomUUID(), randomUUID()];
    await db.query("update ai.runs set app_id = $2, actor_id = $3 where id = $1", [run.run_id, appId, memberId]);
    for (const filter of [{ appId }, { memberId }, { appId, memberId }]) {
      const found = await list(db, tenant, filter);
      expect(found).toMatchObject({ runs: [{ id: run.run_id, appName: null, memberName: null }], unknown: null });
    }
    await hideCost(db, tenant);
    expect(await list(db, tenant, { appId, provider: "demo" })).toMatchObject({ runs: [], unknown: "provider" });
  });

  test("does not filter runs by provider if the workspace hides providers", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    await settled(db, tenant);
    await hideCost(db, tenant);
    expect(await list(db, tenant, { provider: "demo" })).toMatchObject({ runs: [], unknown: "provider" });
    expect((await list(db, tenant, {})).runs).toMatchObject([{ provider: null }]);
  });
});

describe("the filter options for runs", () => {
  test("the filter options for runs require use_ai_studio", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const allowed = (permissions as readonly string[]).includes("use_ai_studio");
      const { outcome: read } = await options(db, { workspaceId: tenant.workspaceId, ownerId: member.sub });
      expect(read, role).toBe(allowed ? "listed" : "not_allowed");
    }
  });

  test("the filter options for runs contain only the workspace's own values, and no providers if the workspace hides them", async ({
    db,
  }) => {
    const [tenant, stranger] = [await createTenant(db), await createTenant(db)];
    const member = await createActor(db, { workspaceId: tenant.workspaceId, role: "owner" });
    const reader = { ...tenant, ownerId: member.sub };
    const old = await addKey(db, tenant);
    await db.query("update ai.keys set revoked_at = now() where id = $1", [old.id]);
    const found = await options(db, reader);
    expect(found.keys.toSorted((one, two) => Number(one.ended) - Number(two.ended))).toEqual([
      { id: tenant.keyId, name: "test", ended: false },
      { id: old.id, name: "test", ended: true },
    ]);
    expect(found.members.map(({ id }) => id)).toContain(member.sub);
    expect(found.providers).toEqual(["demo"]);
    expect(JSON.stringify(found)).not.toContain(stranger.keyId);
    await hideCost(db, tenant);
    expect((await options(db, reader)).providers).toBeNull();
  });

  test("the filter options for runs contain at most 100 of each kind", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query(
      `insert into ai.keys (id, workspace_id, lineage_id, name, lookup, secret_hash)
       select i, $1, i, 'many', substr(md5(i::text), 1, 12), sha256(i::text::bytea)
       from (select gen_random_uuid() as i from generate_series(1, 100)) k`,
      [tenant.workspaceId],
    );
    expect((await options(db, tenant)).keys).toHaveLength(100);
  });
});
