import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { one, test } from "../database.ts";
import { begin, chatCall, createTenant } from "../gateway/fixtures.ts";
import { createMachine } from "../machines/fixtures.ts";
import { createAdmin } from "./fixtures.ts";
import {
  type Answer,
  addCompleteModel,
  addedLines,
  basisOf,
  type Change,
  createSetup,
  grantedPlans,
  linesOf,
  newId,
  priceAt,
  readModel,
  requireSaved,
  routeTo,
  settings,
  stateOf,
} from "./model-setups.ts";

describe("adding a model", () => {
  test("one change adds a model with a fallback that can be called at once", async ({ db }) => {
    const { save, tenant, plan } = await createSetup(db);
    const model = newId();
    const change = {
      model,
      routes: [routeTo("demo"), routeTo("second")],
      prices: [priceAt("demo"), priceAt("demo", { serviceTier: "flex", inputUsd: "0.5" }), priceAt("second")],
      plans: [plan],
      seenPlans: [],
      enabled: true,
    };
    expect(await save(change)).toEqual({});
    const begun = await begin(db, chatCall(tenant, { model, providers: ["demo", "second"] }));
    expect((begun as unknown as { routes: { provider: string }[] }).routes.map((route) => route.provider)).toEqual([
      "demo",
      "second",
    ]);
    expect(await linesOf(db, model)).toEqual([
      "model.add",
      "model.add_price",
      "model.add_price",
      "model.add_price",
      "model.add_route",
      "model.add_route",
      "model.enable",
      "model.grant",
    ]);
  });

  test("a model needs only its settings, and starts out disabled", async ({ db }) => {
    const { save } = await createSetup(db);
    const model = newId();
    expect(await save({ model })).toEqual({});
    expect(await requireSaved(db, model)).toMatchObject({ enabled: false, routes: [], prices: [] });
    expect(await linesOf(db, model)).toEqual(["model.add"]);
  });

  test("a service account may add a whole model if its token has the scope", async ({ db }) => {
    const { id } = await one<{ id: string }>(db, {
      sql: `insert into private.service_accounts (name, scopes, expires_at)
        values ('Catalogue', '{admin:catalogue:write}', now() + interval '1 day') returning id`,
    });
    const model = newId();
    const parts = { routes: [routeTo("demo")], prices: [priceAt("demo")], enabled: true };
    const request = { serviceAccount: id, reason: "test", requestId: "request-1" };
    const save = (serviceAccountScopes: string[]) =>
      one<{ answer: Answer }>(db, {
        sql: "select private.save_model_setup($1) as answer",
        values: [JSON.stringify({ ...settings, version: null, model, ...parts, ...request, serviceAccountScopes })],
      });
    expect(await save([])).toEqual({ answer: { refused: "forbidden" } });
    expect(await save(["admin:catalogue:write"])).toEqual({ answer: {} });
    expect(await linesOf(db, model)).toEqual(["model.add", "model.add_price", "model.add_route", "model.enable"]);
  });

  test("a new model can become the default of its kind", async ({ db }) => {
    const { save } = await createSetup(db);
    await db.query("update ai.models set is_default = false where kind = 'embedding'");
    const [first, second, third] = [newId(), newId(), newId()];
    const asDefault = { kind: "embedding", isDefault: true };
    expect(await save({ ...asDefault, model: first })).toEqual({});
    expect(await save({ ...asDefault, model: second })).toEqual({ refused: "default_changed", part: "settings" });
    expect(await readModel(db, second)).toBeNull();
    expect(await save({ ...asDefault, model: third, defaultOfKind: first })).toEqual({});
    expect(await requireSaved(db, first)).toMatchObject({ isDefault: false, defaultOfKind: third });
  });
});

describe("editing a model", () => {
  test("a setup that changes nothing writes nothing", async ({ db }) => {
    const setup = await createSetup(db);
    const complete = await addCompleteModel(db, setup);
    const before = await linesOf(db, complete.model);
    const written = { ...complete.prices[0], inputUsd: "1.000000", latest: "1", seen: 7 };
    expect(await setup.save({ ...complete, prices: [written, ...complete.prices.slice(1)] })).toEqual({});
    expect(await linesOf(db, complete.model)).toEqual(before);
    expect((await requireSaved(db, complete.model)).version).toBe(complete.version);
  });

  test("parts that are missing or null stay as they are", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version } = await addCompleteModel(db, setup);
    const before = await stateOf(db, model);
    const none = { routes: null, prices: null, plans: null, enabled: null };
    expect(await setup.save({ model, version, ...none, displayName: "Renamed" })).toEqual({});
    const { version: next } = await requireSaved(db, model);
    expect(await setup.save({ model, version: next })).toEqual({});
    expect(await stateOf(db, model)).toEqual(before);
  });

  test("routes are removed, added, edited and moved, each with its own line", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version } = await addCompleteModel(db, setup);
    const routes = [routeTo("three"), routeTo("two", "x", { enabled: false, tierMultipliers: { flex: "0.50" } })];
    const lines = [await linesOf(db, model)];
    /** Returns the lines that were added since the last call. */
    const newLines = async () => {
      lines.push(await linesOf(db, model));
      return addedLines(lines.at(-2) ?? [], lines.at(-1) ?? []);
    };
    expect(await setup.save({ model, version, routes })).toEqual({});
    const saved = await requireSaved(db, model);
    expect(saved.routes.map((r) => [r.position, r.providerId, r.enabled])).toEqual([
      [1, "three", true],
      [2, "two", false],
    ]);
    expect(await newLines()).toEqual(["model.add_route", "model.edit_route", "model.remove_route"]);
    const moved = [...routes].reverse();
    expect(await setup.save({ model, version: saved.version, routes: moved })).toEqual({});
    expect(await newLines()).toEqual(["model.edit_route"]);
    const { version: last } = await requireSaved(db, model);
    // The same factor with fewer digits is not a difference.
    const same = [routeTo("two", "x", { enabled: false, tierMultipliers: { flex: "0.5" } }), routeTo("three")];
    expect(await setup.save({ model, version: last, routes: same })).toEqual({});
    expect(await newLines()).toEqual([]);
    expect(await setup.save({ model, version: last, routes: [] })).toEqual({});
    expect((await requireSaved(db, model)).routes).toEqual([]);
  });

  test("only prices with other amounts are added, and they begin now", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version } = await addCompleteModel(db, setup);
    const basis = await basisOf(db, model, "one");
    const later = new Date(Date.now() + 86_400_000).toISOString();
    const prices = [
      priceAt("one", { ...basis, inputUsd: "3", from: later }),
      priceAt("one", { ...basis, serviceTier: "flex", inputUsd: "0.5" }),
      priceAt("one", { ...basis, serviceTier: "priority", inputUsd: "9" }),
      priceAt("two", { cachedInputUsd: "0.1", ...(await basisOf(db, model, "two")) }),
    ];
    const before = await linesOf(db, model);
    expect(await setup.save({ model, version, prices })).toEqual({});
    expect(addedLines(before, await linesOf(db, model))).toEqual(Array(3).fill("model.add_price"));
    const current = await db.query(
      `select provider_id as provider, service_tier as tier, input_usd_per_million::text as input
       from ai.model_prices where model_id = $1 and valid @> now() order by 1, 2`,
      [model],
    );
    expect(current).toEqual([
      { provider: "one", tier: "default", input: "3.000000" },
      { provider: "one", tier: "flex", input: "0.500000" },
      { provider: "one", tier: "priority", input: "9.000000" },
      { provider: "two", tier: "default", input: "1.000000" },
    ]);
  });

  test("plans are granted and withdrawn, and grants to single workspaces stay", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version, plans } = await addCompleteModel(db, setup);
    const { planId, workspaceId } = await createTenant(db);
    await setup.admin.ask("set_model_grant", { model, workspace: workspaceId, granted: true });
    const before = await linesOf(db, model);
    expect(await setup.save({ model, version, plans: [planId, planId], seenPlans: plans })).toEqual({});
    expect(grantedPlans(await requireSaved(db, model))).toEqual([planId]);
    expect(addedLines(before, await linesOf(db, model))).toEqual(["model.grant", "model.withdraw"]);
    const workspaces = await db.query("select from ai.model_grants where model_id = $1 and workspace_id is not null", [
      model,
    ]);
    expect(workspaces).toHaveLength(1);
  });
});

describe("a refused setup", () => {
  const other = { displayName: "Changed", enabled: false, plans: [] };

  test.for<[string, Change, Answer]>([
    ["the settings are invalid", { voices: ["alloy"] }, { refused: "invalid", part: "settings" }],
    ["a route is invalid", { routes: [routeTo("three"), routeTo("No id")] }, { refused: "invalid", part: "routes.1" }],
    [
      "a route is listed twice",
      { routes: [routeTo("one"), routeTo("two"), routeTo("one")] },
      { refused: "route_taken", part: "routes.2" },
    ],
    [
      "a price has no route",
      { prices: [priceAt("three"), priceAt("nowhere")], routes: [routeTo("three")] },
      { refused: "no_route", part: "prices.1" },
    ],
    [
      "a price is listed twice",
      { prices: [priceAt("three"), priceAt("three", { inputUsd: "4" })], routes: [routeTo("three")] },
      { refused: "taken", part: "prices.1" },
    ],
    ["a plan does not exist", { plans: ["no_plan"] }, { refused: "no_grantee", part: "plans.no_plan" }],
    ["there are too many routes", { routes: Array(101).fill(routeTo("one")) }, { refused: "too_many", part: "routes" }],
    ["there are too many prices", { prices: Array(101).fill(priceAt("one")) }, { refused: "too_many", part: "prices" }],
    ["there are too many plans", { plans: Array(1_001).fill("free") }, { refused: "too_many", part: "plans" }],
  ])("saves nothing if %s", async ([, change, refusal], { db }) => {
    const setup = await createSetup(db);
    const complete = await addCompleteModel(db, setup);
    const before = [await stateOf(db, complete.model), await linesOf(db, complete.model)];
    expect(await setup.save({ ...complete, ...other, ...change })).toEqual(refusal);
    expect([await stateOf(db, complete.model), await linesOf(db, complete.model)]).toEqual(before);
    // The same as a new model.
    const model = newId();
    const answer = await setup.save({ ...complete, ...other, ...change, model, version: null, seenPlans: [] });
    expect(answer).toEqual(refusal);
    expect(await readModel(db, model)).toBeNull();
  });

  test("saves nothing if the id is taken or the model does not exist", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version } = await addCompleteModel(db, setup);
    expect(await setup.save({ model, routes: [] })).toEqual({ refused: "id_taken", part: "settings" });
    expect(await setup.save({ model: newId(), version })).toEqual({ refused: "not_found" });
    expect((await requireSaved(db, model)).routes).toHaveLength(2);
  });

  test("accepts as many routes and prices as it may have", async ({ db }) => {
    const setup = await createSetup(db);
    const model = newId();
    const routes = Array.from({ length: 100 }, (_, at) => routeTo("one", `m${at}`));
    const prices = Array.from({ length: 100 }, (_, at) => priceAt("one", { minInputTokens: at }));
    expect(await setup.save({ model, routes, prices })).toEqual({});
    const saved = await requireSaved(db, model);
    expect([saved.routes.length, saved.prices.length]).toEqual([100, 100]);
  });

  test("a service account with the scope saves a whole setup", async ({ db }) => {
    const setup = await createSetup(db);
    const scopes = ["admin:catalogue:write"];
    const { id } = await createMachine(db, { scopes });
    const change = { ...settings, model: newId(), routes: [routeTo("one")], prices: [priceAt("one")], enabled: true };
    const request = {
      ...change,
      plans: [setup.plan],
      serviceAccount: id,
      serviceAccountScopes: scopes,
      reason: "test",
    };
    const { answer } = await one<{ answer: object }>(db, {
      sql: "select private.save_model_setup($1) as answer",
      values: [JSON.stringify(request)],
    });
    expect(answer).toEqual({});
    expect((await requireSaved(db, change.model)).enabled).toBe(true);
  });

  test("names who changed the settings, prices or plans since the admin saw them", async ({ db }) => {
    const setup = await createSetup(db);
    const complete = await addCompleteModel(db, setup);
    const { model, plans } = complete;
    const { planId } = await createTenant(db);
    const conflict = (part: string) => ({
      refused: "conflict",
      part,
      last: { actorEmail: setup.admin.email, at: expect.any(String) },
    });
    const basis = await basisOf(db, model, "one");
    await setup.admin.ask("set_model_grant", { model, plan: planId, granted: true });
    const wanted = { ...complete, plans: [], displayName: "Changed" };
    expect(await setup.save(wanted)).toEqual(conflict("plans"));
    await setup.admin.ask("add_model_price", { model, ...priceAt("one", { ...basis, serviceTier: "priority" }) });
    const prices = [priceAt("two", { ...(await basisOf(db, model, "two")), inputUsd: "8" })];
    const price = priceAt("one", { ...basis, inputUsd: "7" });
    expect(await setup.save({ ...complete, prices: [...prices, price] })).toEqual(conflict("prices.1"));
    // Only the number of prices differs.
    const now = await basisOf(db, model, "one");
    const fewer = priceAt("one", { ...now, seen: now.seen - 1, inputUsd: "7" });
    expect(await setup.save({ ...complete, prices: [fewer] })).toEqual(conflict("prices.0"));
    // Both prices of a provider must be based on the same state.
    const two = [priceAt("one", { ...now, inputUsd: "7" }), priceAt("one", { ...basis, serviceTier: "batch" })];
    expect(await setup.save({ ...complete, prices: two })).toEqual(conflict("prices.1"));
    // A scheduled price has taken effect.
    const replaced = priceAt("one", { ...now, inputUsd: "7", replaces: "1" });
    expect(await setup.save({ ...complete, prices: [replaced] })).toEqual(conflict("prices.0"));
    // Not the admin whose own changes are undone.
    const other = await createAdmin(db);
    const renamed = { ...complete, displayName: "Changed", prices: [replaced], actor: other.id };
    expect(await setup.save(renamed)).toEqual(conflict("prices.0"));
    await setup.admin.ask("set_model_enabled", { model, enabled: false });
    expect(await setup.save(complete)).toEqual(conflict("settings"));
    expect(grantedPlans(await requireSaved(db, model)).sort()).toEqual([...plans, planId].sort());
  });

  test("an admin who wants what another admin has just granted is not refused", async ({ db }) => {
    const setup = await createSetup(db);
    const { model, version, plans } = await addCompleteModel(db, setup);
    const { planId } = await createTenant(db);
    await setup.admin.ask("set_model_grant", { model, plan: planId, granted: true });
    expect(await setup.save({ model, version, plans: [...plans, planId], seenPlans: plans })).toEqual({});
  });

  test("a route or price can't replace the actor, the model or the reason", async ({ db }) => {
    const setup = await createSetup(db);
    const victim = await addCompleteModel(db, setup);
    const before = await stateOf(db, victim.model);
    const model = newId();
    const forged = { actor: randomUUID(), serviceAccount: randomUUID(), model: victim.model, reason: "forged" };
    const change = { model, routes: [routeTo("three", "x", forged)], prices: [priceAt("three", forged)] };
    expect(await setup.save({ ...change, enabled: true })).toEqual({});
    expect(await stateOf(db, victim.model)).toEqual(before);
    const lines = await db.query(
      "select distinct actor_id, service_account_id, reason from private.admin_audit_log where target = $1",
      [`model ${model}`],
    );
    expect(lines).toEqual([{ actor_id: setup.admin.id, service_account_id: null, reason: "test" }]);
  });
});
