import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";
import type { createAdmin } from "./fixtures.ts";
import {
  type Answer,
  basisOf,
  type Change,
  createSetup,
  grantedPlans,
  linesOf,
  makeOlder,
  newId,
  priceAt,
  readModel,
  requireSaved,
  routeTo,
  settings,
  stateOf,
} from "./model-setups.ts";

const providerIds = ["one", "two", "three"];
const arbitraryRoute = fc.record({
  providerId: fc.constantFrom(...providerIds),
  providerModel: fc.constantFrom("x", "y"),
  enabled: fc.boolean(),
  trustsStatedCost: fc.boolean(),
  tierMultipliers: fc.constantFrom({}, { flex: "0.5" }, { flex: "0.5", priority: "2" }),
  firstByteSeconds: fc.constantFrom(null, 10),
  idleSeconds: fc.constant(null),
  totalSeconds: fc.constantFrom(null, 600),
});
const arbitrarySetup = fc
  .record({
    displayName: fc.constantFrom("A", "B"),
    contextWindow: fc.constantFrom(null, 1_000),
    studioDefault: fc.boolean(),
    routes: fc.uniqueArray(arbitraryRoute, {
      maxLength: 5,
      selector: ({ providerId, providerModel }) => `${providerId} ${providerModel}`,
    }),
    amounts: fc.record({ inputUsd: fc.constantFrom("1", "2"), cachedInputUsd: fc.constantFrom(null, "0.5") }),
    tiers: fc.subarray(["default", "flex"]),
    isGranted: fc.boolean(),
    enabled: fc.boolean(),
  })
  .map(({ amounts: chosen, tiers, ...setup }) => ({
    ...setup,
    // Prices need a route of their provider.
    prices: [...new Set(setup.routes.map(({ providerId }) => providerId))].flatMap((providerId) =>
      tiers.map((serviceTier) => ({ ...priceAt(providerId, chosen), serviceTier })),
    ),
  }));
type Admin = Awaited<ReturnType<typeof createAdmin>>;
type Setup = typeof arbitrarySetup extends fc.Arbitrary<infer Value> ? Value : never;

/** Makes the changes of a setup one by one, as the pages for single changes do. */
async function saveInSteps(
  db: Database,
  { ask, model, plan, setup }: { ask: Admin["ask"]; model: string; plan: string; setup: Setup },
): Promise<void> {
  const { routes, prices, isGranted, enabled, ...rest } = setup;
  const make = async (name: string, change: Change) => {
    expect(await ask(name, { model, ...change })).not.toHaveProperty("refused");
  };
  const versionOf = async () => ({ version: (await requireSaved(db, model)).version });
  await make("save_model", { ...settings, ...rest, ...((await readModel(db, model)) ? await versionOf() : {}) });
  while ((await requireSaved(db, model)).routes.length > 0) {
    await make("change_model_route", { ...(await versionOf()), place: 1, route: null });
  }
  for (const [at, route] of routes.entries()) {
    await make("change_model_route", { ...(await versionOf()), place: null, route: { ...route, position: at + 1 } });
  }
  const offered = (await stateOf(db, model))?.prices as Record<string, unknown>[];
  for (const price of prices) {
    const same = offered.find(
      (each) => each.provider === price.providerId && (each.service_tier ?? "default") === price.serviceTier,
    );
    const isSame =
      Number(same?.input) === Number(price.inputUsd) &&
      Number(same?.cached_input ?? -1) === Number(price.cachedInputUsd ?? -1);
    if (!isSame) await make("add_model_price", { ...price, ...(await basisOf(db, model, price.providerId)) });
  }
  const saved = await requireSaved(db, model);
  if (grantedPlans(saved).includes(plan) !== isGranted) await make("set_model_grant", { plan, granted: isGranted });
  if (saved.enabled !== enabled) await make("set_model_enabled", { enabled });
}

test("a setup leads to the same model as the single changes, and repeated it writes nothing", async ({ db }) => {
  const { admin, plan, save } = await createSetup(db);
  await fc.assert(
    fc.asyncProperty(arbitrarySetup, arbitrarySetup, async (first, second) => {
      const [bySetup, bySteps] = [newId(), newId()];
      for (const setup of [first, second]) {
        const { isGranted, prices, ...rest } = setup;
        const before = await readModel(db, bySetup);
        const based = await Promise.all(
          prices.map(async (price) => ({ ...price, ...(await basisOf(db, bySetup, price.providerId)) })),
        );
        const change = {
          ...rest,
          model: bySetup,
          version: before?.version ?? null,
          prices: based,
          plans: isGranted ? [plan] : [],
          seenPlans: before ? grantedPlans(before) : [],
        };
        expect(await save(change)).toEqual({});
        await saveInSteps(db, { ask: admin.ask, model: bySteps, plan, setup });
        expect(await stateOf(db, bySetup)).toEqual(await stateOf(db, bySteps));

        const lines = await linesOf(db, bySetup);
        const saved = await requireSaved(db, bySetup);
        expect(await save({ ...change, version: saved.version, seenPlans: change.plans })).toEqual({});
        expect(await linesOf(db, bySetup)).toEqual(lines);
        for (const model of [bySetup, bySteps]) await makeOlder(db, model);
      }
    }),
    { numRuns: 6 },
  );
  // Other files hold locks of the catalogue in a transaction for up to a minute.
}, 180_000);

test("only one of 20 concurrent admins can save a setup of the same model, and no price is added twice", async () => {
  const { db, close } = openPool(20);
  const actor = randomUUID();
  const email = `${actor}@race.test`;
  const model = `setup-${actor}`;
  const save = async (change: Change): Promise<Answer> => {
    const stamped = { ...settings, actor, model, reason: "race", requestId: "request-1", ip: "192.0.2.1", ...change };
    const [row] = await db.query<{ answer: Answer }>("select private.save_model_setup($1) as answer", [
      JSON.stringify(stamped),
    ]);
    return row?.answer ?? {};
  };
  const complete = { routes: [routeTo("one"), routeTo("two")], prices: [priceAt("one"), priceAt("two")] };
  try {
    await db.query("insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)", [
      actor,
      email,
    ]);
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [actor]);
    const added = await Promise.all(Array.from({ length: 20 }, () => save(complete)));
    expect(added.filter(({ refused }) => refused === undefined)).toHaveLength(1);
    expect(new Set(added.flatMap(({ refused = [] }) => refused))).toEqual(new Set(["id_taken"]));
    expect(await linesOf(db, model)).toHaveLength(5);

    const { version } = await requireSaved(db, model);
    const basis = await basisOf(db, model, "one");
    const edits = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        save({
          version,
          displayName: `Number ${at}`,
          routes: [...complete.routes].reverse(),
          prices: [priceAt("one", { ...basis, inputUsd: String(at + 2) })],
        }),
      ),
    );
    expect(edits.filter(({ refused }) => refused === undefined)).toHaveLength(1);
    const refusals = edits.filter(({ refused }) => refused !== undefined);
    expect(refusals).toEqual(
      Array(19).fill({ refused: "conflict", part: "settings", last: { actorEmail: email, at: expect.any(String) } }),
    );
    expect(await linesOf(db, model)).toHaveLength(8);
  } finally {
    await db.query("delete from ai.model_prices where model_id = $1", [model]);
    await db.query("delete from ai.models where id = $1", [model]);
    await db.query("delete from auth.users where id = $1", [actor]);
    await close();
  }
});
