import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, type Tenant } from "../gateway/fixtures.ts";
import { type ConsoleAnswer, createAdmin } from "./fixtures.ts";

type Admin = Awaited<ReturnType<typeof createAdmin>>;
type Model = {
  version: string;
  displayName: string;
  canDelete: boolean;
  defaultOfKind: string | null;
  defaultOutputLimit: number | null;
  hasRoute: boolean;
  hasPrice: boolean;
  hasGrant: boolean;
  routes: { position: number; providerModel: string; tierMultipliers: object }[];
  plans: { id: string; granted: boolean }[];
  workspaces: { id: string; name: string }[];
};

const settings = {
  kind: "chat",
  displayName: "New",
  ownedBy: "test",
  studioDefault: true,
  contextWindow: 1000,
  outputLimit: null,
  voices: [],
  isDefault: false,
};
const route = {
  position: 1,
  providerId: "demo",
  providerModel: "x",
  enabled: true,
  trustsStatedCost: false,
  tierMultipliers: {},
  firstByteSeconds: null,
  idleSeconds: null,
  totalSeconds: null,
};

async function read(db: Database, model: string): Promise<Model> {
  const { answer } = await one<{ answer: Model }>(db, {
    sql: "select private.read_model($1) as answer",
    values: [model],
  });
  return answer;
}

/**
 * Adds a disabled model.
 * @returns its id
 */
async function addModel({ ask }: Admin, changes: object = {}): Promise<string> {
  const model = `new-${randomUUID()}`;
  expect(await ask("save_model", { ...settings, ...changes, model })).toEqual({});
  return model;
}

async function edit(
  db: Database,
  { ask, model, ...changes }: { ask: Admin["ask"]; model: string; [change: string]: unknown },
) {
  const { version } = await read(db, model);
  return ask("save_model", { ...settings, version, ...changes, model });
}

async function changeRoute(
  db: Database,
  {
    ask,
    model,
    place = null,
    route: to,
  }: { ask: Admin["ask"]; model: string; place?: number | null; route: object | null },
): Promise<ConsoleAnswer> {
  const { version } = await read(db, model);
  return ask("change_model_route", { model, version, place, route: to && { ...route, ...to } });
}

const refusalOf = async (db: Database, tenant: Tenant, model: string) =>
  (await begin(db, chatCall(tenant, { model }))).refused ?? null;

test("a model can be called only after it is added, routed, priced, granted and enabled", async ({ db }) => {
  const admin = await createAdmin(db);
  const { ask } = admin;
  const tenant = await createTenant(db, { credits: "100" });
  const model = await addModel(admin);
  const price = { model, providerId: "demo", latest: null, inputUsd: "1", outputUsd: "2" };
  const steps = [
    () => ask("set_model_enabled", { model, enabled: true }),
    () => changeRoute(db, { ask, model, route: {} }),
    () => ask("add_model_price", price),
    () => ask("set_model_grant", { model, plan: tenant.planId, granted: true }),
  ];
  for (const step of steps) {
    expect(await refusalOf(db, tenant, model)).toBe("model_not_found");
    expect((await step()).refused).toBeUndefined();
  }
  expect(await refusalOf(db, tenant, model)).toBeNull();
  expect(await read(db, model)).toMatchObject({ hasRoute: true, hasPrice: true, hasGrant: true, canDelete: false });
  const log = await db.query(
    "select action, before is null as is_new, reason from private.admin_audit_log where target = $1 order by created_at, id",
    [`model ${model}`],
  );
  expect(log.map(({ action }) => action).sort()).toEqual([
    "model.add",
    "model.add_price",
    "model.add_route",
    "model.enable",
    "model.grant",
  ]);
  expect(await ask("set_model_grant", { model, plan: tenant.planId, granted: false })).toEqual({});
  expect(await refusalOf(db, tenant, model)).toBe("model_not_found");
});

test("a route receives calls only once it has a price for the default service tier", async ({ db }) => {
  const admin = await createAdmin(db);
  const { ask } = admin;
  const tenant = await createTenant(db, { credits: "100" });
  const model = await addModel(admin);
  await changeRoute(db, { ask, model, route: {} });
  await changeRoute(db, { ask, model, route: { providerId: "second" } });
  await ask("set_model_grant", { model, plan: tenant.planId, granted: true });
  await ask("set_model_enabled", { model, enabled: true });
  const add = (more: object) => ask("add_model_price", { model, latest: null, inputUsd: "1", outputUsd: "2", ...more });
  const providersOf = async (call: object) => {
    const providers = ["demo", "second"];
    const begun = await begin(db, chatCall(tenant, { model, providers, ...call }));
    return begun.refused ?? (begun as unknown as { routes: { provider: string }[] }).routes.map((r) => r.provider);
  };
  await add({ providerId: "demo", serviceTier: "flex" });
  for (const call of [{}, { service_tier: "flex" }]) expect(await providersOf(call)).toBe("model_not_found");
  expect(await read(db, model)).toMatchObject({ hasRoute: true, hasPrice: false });
  await add({ providerId: "second" });
  expect(await read(db, model)).toMatchObject({ hasPrice: true });
  expect(await providersOf({})).toEqual(["second"]);
  const latest = await one<{ id: string }>(db, {
    sql: "select id::text from ai.model_prices where model_id = $1 and service_tier = 'flex'",
    values: [model],
  });
  await add({ providerId: "demo", latest: latest.id });
  expect(await providersOf({})).toEqual(["second", "demo"]);
});

describe("adding, changing and deleting a model", () => {
  test("a model can't be added with a taken id or invalid settings", async ({ db }) => {
    const admin = await createAdmin(db);
    const model = await addModel(admin);
    expect(await admin.ask("save_model", { ...settings, model })).toEqual({ refused: "id_taken" });
    expect(await admin.ask("save_model", { ...settings, model: "with space" })).toEqual({ refused: "invalid" });
    for (const wrong of [{ kind: "speech" }, { voices: ["alloy"] }, { contextWindow: 0 }]) {
      const change = { ...settings, ...wrong, model: `new-${randomUUID()}` };
      expect(await admin.ask("save_model", change)).toEqual({ refused: "invalid" });
    }
    await addModel(admin, { kind: "speech", voices: ["alloy"] });
  });

  test("a model is not changed if someone else changed it first", async ({ db }) => {
    const admin = await createAdmin(db);
    const { ask, email } = admin;
    const model = await addModel(admin);
    const { version } = await read(db, model);
    const conflict = { refused: "conflict", last: { actorEmail: email, at: expect.any(String) } };
    expect(await ask("save_model", { ...settings, model, version, displayName: "First" })).toEqual({});
    expect(await ask("save_model", { ...settings, model, version, displayName: "Second" })).toEqual(conflict);
    expect(await ask("change_model_route", { model, version, place: null, route })).toEqual(conflict);
    expect(await ask("delete_model", { model, version })).toEqual(conflict);
    // Simulates a change by an operator's SQL, which is not logged.
    const seen = await read(db, model);
    await db.query("update ai.models set owned_by = 'other' where id = $1", [model]);
    expect(await ask("save_model", { ...settings, model, version: seen.version })).toEqual(conflict);
    expect((await read(db, model)).displayName).toBe("First");
  });

  test("a new default model replaces the default of its kind only if the admin saw that default", async ({ db }) => {
    const admin = await createAdmin(db);
    await db.query("update ai.models set is_default = false where kind = 'embedding'");
    const [first, second] = [
      await addModel(admin, { kind: "embedding" }),
      await addModel(admin, { kind: "embedding" }),
    ];
    const byDefault = { ask: admin.ask, isDefault: true, defaultOfKind: null };
    expect(await edit(db, { ...byDefault, model: first })).toEqual({});
    expect(await edit(db, { ...byDefault, model: second })).toEqual({ refused: "default_changed" });
    expect(await edit(db, { ...byDefault, model: second, defaultOfKind: first })).toEqual({});
    expect((await read(db, first)).defaultOfKind).toBe(second);
    const log = await db.query(
      "select after from private.admin_audit_log where target = $1 and before = '{\"is_default\": true}'",
      [`model ${first}`],
    );
    expect(log).toEqual([{ after: { is_default: false } }]);
  });

  test("a model can be deleted, with its prices, only if it was never enabled", async ({ db }) => {
    const admin = await createAdmin(db);
    const { ask } = admin;
    const model = await addModel(admin);
    await changeRoute(db, { ask, model, route: {} });
    await ask("add_model_price", { model, providerId: "demo", latest: null, inputUsd: "1", outputUsd: "2" });
    const { version, canDelete } = await read(db, model);
    expect(canDelete).toBe(true);
    expect(await ask("delete_model", { model, version })).toEqual({});
    expect(await ask("delete_model", { model, version })).toEqual({ refused: "not_found" });

    const used = await addModel(admin);
    for (const enabled of [true, false]) await ask("set_model_enabled", { model: used, enabled });
    const seen = await read(db, used);
    expect(seen.canDelete).toBe(false);
    expect(await ask("delete_model", { model: used, version: seen.version })).toEqual({ refused: "used" });
    // Simulates that an operator's SQL, which is not logged, enabled the model.
    const enabled = await addModel(admin);
    await db.query("update ai.models set enabled = true where id = $1", [enabled]);
    await ask("set_model_enabled", { model: enabled, enabled: false });
    expect((await read(db, enabled)).canDelete).toBe(false);
    const { model: seeded } = await createTenant(db);
    await db.query("update ai.models set enabled = false where id = $1", [seeded]);
    expect((await read(db, seeded)).canDelete).toBe(false);
  });
});

describe("a model's routes", () => {
  test("a model's routes can be added, moved, edited and removed, and stay numbered without gaps", async ({ db }) => {
    const admin = await createAdmin(db);
    const { ask } = admin;
    const model = await addModel(admin);
    const change = (place: number | null, to: object | null) => changeRoute(db, { ask, model, place, route: to });
    const order = async () => (await read(db, model)).routes.map((r) => `${r.position} ${r.providerModel}`);
    expect(await change(null, { providerModel: "b", position: 100 })).toEqual({});
    expect(await change(null, { providerModel: "d", position: 2 })).toEqual({});
    expect(await change(null, { providerModel: "a", position: 1 })).toEqual({});
    expect(await change(null, { providerModel: "c", position: 3 })).toEqual({});
    expect(await order()).toEqual(["1 a", "2 b", "3 c", "4 d"]);
    expect(await change(1, { providerModel: "a", position: 3 })).toEqual({});
    expect(await order()).toEqual(["1 b", "2 c", "3 a", "4 d"]);
    expect(await change(4, { providerModel: "d", position: 1 })).toEqual({});
    expect(await order()).toEqual(["1 d", "2 b", "3 c", "4 a"]);
    expect(await change(2, null)).toEqual({});
    expect(await order()).toEqual(["1 d", "2 c", "3 a"]);
    expect(await change(null, { providerModel: "c" })).toEqual({ refused: "route_taken" });
    expect(await change(4, { providerModel: "e" })).toEqual({ refused: "not_found" });
    expect(await change(null, null)).toEqual({ refused: "not_found" });
    expect(
      await change(2, { providerModel: "c", position: 2, tierMultipliers: { flex: "0.5", priority: "2" } }),
    ).toEqual({});
    expect((await read(db, model)).routes[1]?.tierMultipliers).toEqual({ flex: "0.5", priority: "2" });
    expect(await order()).toEqual(["1 d", "2 c", "3 a"]);
  });

  test.for([
    { providerId: "No Id" },
    { tierMultipliers: { flex: "-1" } },
    { idleSeconds: 14_401 },
    { providerModel: null },
  ])("refuses the route change %j", async (wrong, { db }) => {
    const admin = await createAdmin(db);
    const model = await addModel(admin);
    await changeRoute(db, { ask: admin.ask, model, route: {} });
    expect(await changeRoute(db, { ask: admin.ask, model, place: 1, route: wrong })).toEqual({ refused: "invalid" });
    expect((await read(db, model)).routes).toHaveLength(1);
  });
});

describe("a model grant", () => {
  test("a model can be granted only once to an existing plan or workspace, and not to the admin's own workspace", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const { ask, personalWorkspaceId } = admin;
    const model = await addModel(admin);
    const { planId: plan, workspaceId: workspace } = await createTenant(db);
    const set = (granted: boolean, to: object) => ask("set_model_grant", { model, granted, ...to });
    for (const to of [{ plan }, { workspace }]) {
      expect(await set(false, to)).toMatchObject({ refused: "conflict" });
      expect(await set(true, to)).toEqual({});
      expect(await set(true, to)).toMatchObject({ refused: "conflict" });
    }
    const granted = await read(db, model);
    expect(granted.plans.filter((one) => one.granted).map(({ id }) => id)).toEqual([plan]);
    expect(granted.workspaces).toEqual([{ id: workspace, name: "Test" }]);
    expect(await set(false, { plan })).toEqual({});
    expect(await read(db, model)).toMatchObject({ hasGrant: true });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspace]);
    expect(await read(db, model)).toMatchObject({ hasGrant: false, workspaces: [] });
    for (const to of [{}, { plan, workspace }, { plan: "no_plan" }, { workspace: randomUUID() }, { workspace }]) {
      expect(await set(true, to)).toEqual({ refused: "no_grantee" });
    }
    expect(await set(true, { workspace: personalWorkspaceId })).toEqual({ refused: "oneself" });
  });
});
