import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";

type Price = Record<string, unknown>;
type Answer = { refused?: string; model?: string; last?: { actorEmail: string } | null };

const day = 24 * 60 * 60 * 1000;

/**
 * Creates an admin and a model with two providers. The first provider has prices for two service tiers and for large
 * inputs.
 */
async function createBook(db: Pick<Database, "query">, actor: string) {
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
  const model = `proposed-${actor}`;
  await db.query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'M', 'm')", [model]);
  await db.query("insert into ai.model_routes values ($1, 1, 'one', 'x'), ($1, 2, 'two', 'x')", [model]);
  await db.query(
    `insert into ai.model_prices (model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, output_usd_per_million)
     select $1, 'one', t.tier, t.size, tstzrange(now() - interval '1 day', null), 1, 2
     from (values ('default', 0), ('flex', 0), ('default', 200001)) as t (tier, size)`,
    [model],
  );
  return model;
}

async function latestOf(db: Pick<Database, "query">, model: string, size = 0): Promise<string | null> {
  const [row] = await db.query<{ latest: string | null }>("select private.latest_price($1, 'one', $2) as latest", [
    model,
    size,
  ]);
  return row?.latest ?? null;
}

async function apply(db: Pick<Database, "query">, change: Record<string, unknown>): Promise<Answer> {
  const stamped = { reason: "reviewed", requestId: "request-1", ip: "192.0.2.1", ...change };
  const [row] = await db.query<{ answer: Answer }>("select private.add_proposed_prices($1) as answer", [
    JSON.stringify(stamped),
  ]);
  return row?.answer ?? {};
}

const priced = (model: string, latest: string | null, rest: Price = {}): Price => ({
  model,
  providerId: "one",
  serviceTier: "default",
  minInputTokens: 0,
  latest,
  inputUsd: "0.000001",
  outputUsd: "3",
  ...rest,
});

const current = (db: Pick<Database, "query">, model: string) =>
  db.query(
    `select provider_id as provider, service_tier as tier, min_input_tokens as size, input_usd_per_million::text as input
     from ai.model_prices where model_id = $1 and valid @> now() order by 1, 2, 3`,
    [model],
  );
const lines = (db: Pick<Database, "query">, model: string) =>
  db.query("select action, reason from private.admin_audit_log where target = $1", [`model ${model}`]);

test("a price review adds all chosen prices, each with an audit record", async ({ db }) => {
  const { sub: actor } = await createActor(db, {});
  const model = await createBook(db, actor);
  const latest = await latestOf(db, model);
  const prices = [
    priced(model, latest),
    priced(model, latest, { serviceTier: "flex", inputUsd: "0.5" }),
    priced(model, null, { providerId: "two" }),
  ];
  expect(await apply(db, { actor, prices })).toEqual({});
  expect(await current(db, model)).toEqual([
    { provider: "one", tier: "default", size: 0, input: "0.000001" },
    { provider: "one", tier: "default", size: 200001, input: "1.000000" },
    { provider: "one", tier: "flex", size: 0, input: "0.500000" },
    { provider: "two", tier: "default", size: 0, input: "0.000001" },
  ]);
  expect(await lines(db, model)).toEqual(Array(3).fill({ action: "model.add_price", reason: "reviewed" }));
});

test.for<[string, (latest: string | null) => Price, string]>([
  ["got a new price since the admin looked", () => ({ minInputTokens: 200001, latest: "1" }), "conflict"],
  ["is based on two different states of its prices", () => ({ serviceTier: "flex", latest: null }), "conflict"],
  ["has no such route", () => ({ providerId: "nowhere", latest: null }), "no_route"],
  ["is named twice", (latest) => ({ latest }), "taken"],
  ["does not exist", () => ({ model: "nothing", latest: null }), "not_found"],
])("a price review adds none of the chosen prices if one of the models %s", async ([, other, refused], { db }) => {
  const { sub: actor } = await createActor(db, {});
  const model = await createBook(db, actor);
  const before = await current(db, model);
  const latest = await latestOf(db, model);
  const answer = await apply(db, { actor, prices: [priced(model, latest), priced(model, latest, other(latest))] });
  expect(answer).toMatchObject({ refused });
  expect(await current(db, model)).toEqual(before);
  expect(await lines(db, model)).toEqual([]);
});

test("a price review can't add a price to a tier of a route if that tier already has a future price", async ({
  db,
}) => {
  const { sub: actor } = await createActor(db, {});
  const model = await createBook(db, actor);
  const later = new Date(Date.now() + day).toISOString();
  expect(await apply(db, { actor, from: later, prices: [priced(model, await latestOf(db, model))] })).toEqual({});
  const again = { actor, prices: [priced(model, await latestOf(db, model))] };
  expect(await apply(db, again)).toMatchObject({ refused: "scheduled", model });
  const flex = { actor, prices: [priced(model, await latestOf(db, model), { serviceTier: "flex" })] };
  expect(await apply(db, flex)).toEqual({});
});

test("a price review must contain 1 to 500 prices and come from an admin", async ({ db }) => {
  const { sub: actor } = await createActor(db, {});
  const none = { actor, prices: [] };
  expect(await apply(db, none)).toEqual({ refused: "forbidden" });
  const model = await createBook(db, actor);
  const many = (count: number) => ({
    actor,
    prices: Array.from({ length: count }, (_, size) =>
      priced(model, null, { providerId: "two", minInputTokens: size }),
    ),
  });
  expect(await apply(db, none)).toEqual({ refused: "too_many" });
  expect(await apply(db, { actor })).toEqual({ refused: "too_many" });
  expect(await apply(db, many(501))).toEqual({ refused: "too_many" });
  expect(await apply(db, many(500))).toEqual({});
});

test("only one of 20 concurrent admins can apply the same price review", async () => {
  const { db, close } = openPool(20);
  const actor = randomUUID();
  try {
    await db.query("insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)", [
      actor,
      `${actor}@race.test`,
    ]);
    const model = await createBook(db, actor);
    const latest = await latestOf(db, model);
    const prices = [priced(model, latest, { serviceTier: "flex" }), priced(model, latest)];
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => apply(db, { actor, prices: index % 2 ? prices : prices.toReversed() })),
    );
    expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(1);
    expect(new Set(answers.flatMap(({ refused = [] }) => refused))).toEqual(new Set(["conflict"]));
    expect(await lines(db, model)).toHaveLength(2);
  } finally {
    await db.query("delete from ai.model_prices where model_id = $1", [`proposed-${actor}`]);
    await db.query("delete from ai.models where id = $1", [`proposed-${actor}`]);
    await db.query("delete from auth.users where id = $1", [actor]);
    await close();
  }
});
