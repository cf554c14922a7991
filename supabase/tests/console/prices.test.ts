import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { type ConsoleAnswer, createAdmin } from "./fixtures.ts";

const day = 24 * 60 * 60 * 1000;
const inDays = (days: number) => new Date(Date.now() + days * day).toISOString();

/** Creates an admin, and a model with one price that has no start. */
async function createBook(db: Database) {
  const { model } = await createTenant(db);
  return { ...(await createAdmin(db)), model };
}

type Listed = { providerId: string; providerModel: string; prices: Record<string, unknown>[] };

/** Returns a model's routes with their prices. */
async function listed(db: Database, model: string): Promise<Listed[]> {
  const { routes } = await one<{ routes: (Listed & { model: string })[] }>(db, {
    sql: "select private.list_route_prices() as routes",
  });
  return routes.filter((route) => route.model === model);
}

describe("prices of routes", () => {
  test("for each tier, shows the current price, otherwise the next future price, otherwise the last past price", async ({
    db,
  }) => {
    const { model } = await createBook(db);
    const add = (tier: [service: string, from: number], valid: [string | null, string | null], input: string) =>
      db.query(
        `insert into ai.model_prices (model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million,
           output_usd_per_million)
         values ($1, 'demo', $2, $3, tstzrange($4, $5), $6, 1)`,
        [model, ...tier, ...valid, input],
      );
    await add(["flex", 0], [inDays(-3), inDays(-1)], "1");
    await add(["flex", 0], [inDays(-1), inDays(1)], "2");
    await add(["flex", 0], [inDays(1), null], "3");
    await add(["priority", 0], [inDays(2), inDays(3)], "4");
    await add(["priority", 0], [inDays(3), null], "5");
    await add(["default", 200000], [inDays(-3), inDays(-2)], "6");
    await add(["default", 200000], [inDays(-2), inDays(-1)], "7.1");
    const [route, ...others] = await listed(db, model);
    expect(others).toEqual([]);
    expect(route).toMatchObject({ providerId: "demo", providerModel: expect.any(String) });
    const { latest } = await one<{ latest: string }>(db, {
      sql: "select max(id)::text as latest from ai.model_prices where model_id = $1 and min_input_tokens = 0",
      values: [model],
    });
    expect(route?.prices).toMatchObject([
      { serviceTier: "default", minInputTokens: 0, current: true, latest },
      { serviceTier: "default", minInputTokens: 200000, current: false, inputUsd: "7.100000" },
      { serviceTier: "flex", current: true, inputUsd: "2.000000", latest },
      { serviceTier: "priority", current: false, inputUsd: "4.000000", cachedInputUsd: null, latest },
    ]);
    expect(route?.prices[1]?.latest).not.toBe(latest);
  });
});

type Book = Awaited<ReturnType<typeof createBook>>;
type Price = { id: string; input: string; from: string | null; until: string | null };

/** Returns a model's default-tier prices, sorted by start. Times are formatted as in the database. */
function pricesOf(db: Database, model: string): Promise<Price[]> {
  return db.query<Price>(
    `select id::text, trim_scale(input_usd_per_million)::text as input, to_jsonb(lower(valid)) #>> '{}' as from,
       to_jsonb(upper(valid)) #>> '{}' as until
     from ai.model_prices where model_id = $1 and service_tier = 'default' and min_input_tokens = 0
     order by lower(valid) nulls first`,
    [model],
  );
}

async function addPrice(db: Database, { ask, model }: Book, { from, input }: { from: string; input: string }) {
  const prices = await pricesOf(db, model);
  const latest = String(Math.max(...prices.map(({ id }) => Number(id))));
  return ask("add_model_price", { model, providerId: "demo", latest, from, inputUsd: input, outputUsd: "1" });
}

/** Cancels the n-th of the given prices, which the admin saw earlier. */
function cancel({ ask, model }: Book, prices: readonly Price[], n: number): Promise<ConsoleAnswer> {
  const [previous, price] = [prices[n - 1], prices[n]];
  return ask("cancel_model_price", { model, price: price?.id, previous: previous?.id ?? null, until: price?.until });
}

test("refuses to add a price if another admin cancelled a price meanwhile", async ({ db }) => {
  const book = await createBook(db);
  await addPrice(db, book, { from: inDays(2), input: "5" });
  await addPrice(db, book, { from: inDays(1), input: "4" });
  const seen = await pricesOf(db, book.model);
  const latest = String(Math.max(...seen.map(({ id }) => Number(id))));
  const next = { model: book.model, providerId: "demo", latest, from: inDays(3), inputUsd: "6", outputUsd: "1" };
  // Cancels a price other than the newest, so that only the number of prices reveals the change.
  expect(await cancel(book, seen, 2)).toEqual({});
  expect(await book.ask("add_model_price", { ...next, seen: seen.length })).toMatchObject({ refused: "conflict" });
  expect(await book.ask("add_model_price", { ...next, seen: seen.length - 1 })).not.toHaveProperty("refused");
});

describe("a future price", () => {
  test("cancelling a future price keeps the previous price in effect until the next one", async ({ db }) => {
    const book = await createBook(db);
    const [first] = await pricesOf(db, book.model);
    for (const [days, input] of [
      [1, "5"],
      [2, "6"],
    ] as const) {
      expect(await addPrice(db, book, { from: inDays(days), input })).not.toHaveProperty("refused");
    }
    const seen = await pricesOf(db, book.model);
    expect(await cancel(book, seen, 1)).toEqual({});
    expect(await pricesOf(db, book.model)).toEqual([{ ...seen[0], until: seen[2]?.from }, seen[2]]);
    expect(await cancel(book, await pricesOf(db, book.model), 1)).toEqual({});
    expect(await pricesOf(db, book.model)).toEqual([first]);
    const log = await db.query(
      `select before ->> 'input_usd_per_million' as cancelled, after ->> 'id' as holds from private.admin_audit_log
       where target = $1 and action = 'model.cancel_price' order by cancelled`,
      [`model ${book.model}`],
    );
    expect(log).toEqual([
      { cancelled: "5.000000", holds: first?.id },
      { cancelled: "6.000000", holds: first?.id },
    ]);
  });

  test("a future price can be cancelled even if it has no previous price", async ({ db }) => {
    const book = await createBook(db);
    await db.query("delete from ai.model_prices where model_id = $1", [book.model]);
    const change = {
      model: book.model,
      providerId: "demo",
      latest: null,
      from: inDays(1),
      inputUsd: "1",
      outputUsd: "1",
    };
    expect(await book.ask("add_model_price", change)).not.toHaveProperty("refused");
    expect(await cancel(book, await pricesOf(db, book.model), 0)).toEqual({});
    expect(await pricesOf(db, book.model)).toEqual([]);
  });

  test("a future price can't be cancelled if its neighbouring prices changed since the admin loaded them", async ({
    db,
  }) => {
    const book = await createBook(db);
    const conflict = { refused: "conflict", last: { actorEmail: book.email, at: expect.any(String) } };
    await addPrice(db, book, { from: inDays(2), input: "5" });
    const seen = await pricesOf(db, book.model);
    await addPrice(db, book, { from: inDays(1), input: "4" });
    expect(await cancel(book, seen, 1)).toEqual(conflict);
    await addPrice(db, book, { from: inDays(3), input: "6" });
    const [, , second, third] = await pricesOf(db, book.model);
    expect(await cancel(book, [second as Price, { ...(second as Price), until: null }], 1)).toEqual(conflict);
    // After one price is cancelled, an admin who saw the earlier list must reload.
    const all = await pricesOf(db, book.model);
    expect(await cancel(book, all, 2)).toEqual({});
    expect(await cancel(book, all, 3)).toEqual(conflict);
    expect(await cancel(book, all, 2)).toEqual(conflict);
    expect((await pricesOf(db, book.model)).map(({ input }) => input)).toContain(third?.input);
  });

  test.for([
    { seconds: 59, answer: { refused: "started" } },
    { seconds: 65, answer: {} },
    { seconds: -1, answer: { refused: "started" } },
  ])(
    "a future price can be cancelled only until a minute before it begins: $seconds s before",
    async ({ seconds, answer }, { db }) => {
      const book = await createBook(db);
      const [price] = await db.query<Price>(
        `insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
       values ($1, 'other', tstzrange(clock_timestamp() + $2 * interval '1 second', null), 9, 9)
       returning id::text, null as until`,
        [book.model, seconds],
      );
      expect(await cancel(book, [price as Price], 0)).toEqual(answer);
    },
  );
});

const callers = 20;

/**
 * Runs `work` on a price book whose second price begins in the given number of seconds. All changes are committed, and
 * removed afterwards.
 */
async function withFuturePrice(
  seconds: number,
  work: (book: Book & { seen: Price[]; db: Database }) => Promise<void>,
): Promise<void> {
  const { db, close } = openPool(callers);
  const { model } = await createTenant(db);
  const admin = await createAdmin(db, { pooled: true });
  const book = { ...admin, model };
  try {
    await addPrice(db, book, { from: new Date(Date.now() + seconds * 1000).toISOString(), input: "5" });
    await work({ ...book, seen: await pricesOf(db, model), db });
  } finally {
    await db.query("update ai.models set enabled = false where id = $1", [model]);
    await db.query("delete from ai.model_prices where model_id = $1", [model]);
    await db.query("delete from ai.models where id = $1", [model]);
    await db.query("delete from auth.users where id = $1", [admin.id]);
    await close();
  }
}

const outcomesOf = (answers: readonly ConsoleAnswer[]) => answers.map(({ refused }) => refused ?? "done").sort();

describe("concurrent price changes", () => {
  test("concurrent admins cancel a price only once", async () => {
    await withFuturePrice(3600, async ({ seen, db, ...book }) => {
      const answers = await Promise.all(Array.from({ length: callers }, () => cancel(book, seen, 1)));
      expect(outcomesOf(answers)).toEqual([...Array(callers - 1).fill("conflict"), "done"]);
      expect(await pricesOf(db, book.model)).toEqual([{ ...seen[0], until: null }]);
    });
  });

  test("if a price is cancelled while another is added, only one of the two changes succeeds", async () => {
    await withFuturePrice(3600, async ({ seen, db, ...book }) => {
      const soon = new Date(Date.now() + 1_800_000).toISOString();
      const add = {
        model: book.model,
        providerId: "demo",
        from: soon,
        latest: seen[1]?.id,
        inputUsd: "7",
        outputUsd: "1",
      };
      const answers = await Promise.all(
        Array.from({ length: callers }, (_, n) =>
          n % 2 === 0 ? cancel(book, seen, 1) : book.ask("add_model_price", add),
        ),
      );
      expect(outcomesOf(answers)).toEqual([...Array(callers - 1).fill("conflict"), "done"]);
      const prices = await pricesOf(db, book.model);
      // The prices have no gap, from the first to the last.
      expect(prices.slice(1).map(({ from }) => from)).toEqual(prices.slice(0, -1).map(({ until }) => until));
      expect([["7"], []]).toContainEqual(prices.map(({ input }) => input).filter((input) => input === "7"));
      expect(prices.at(-1)?.until).toBeNull();
    });
  });

  test("a price is not cancelled if it begins while its cancellation waits", async () => {
    await withFuturePrice(61, async ({ seen, db, ...book }) => {
      const lock = db.query(
        "do $$ begin perform 1 from ai.models m where m.id = 'ID' for update; perform pg_sleep(2); end $$".replace(
          "ID",
          book.model,
        ),
      );
      await sleep(500);
      expect(await cancel(book, seen, 1)).toEqual({ refused: "started" });
      await lock;
      expect(await pricesOf(db, book.model)).toEqual(seen);
    });
  });
});
