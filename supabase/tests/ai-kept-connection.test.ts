import { once } from "node:events";
import { Pool, type PoolClient } from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { type KeptConnection, keepConnection, type Taken } from "../functions/_gateway/kept-connection.ts";

let pool: Pool;
let kept: KeptConnection;

beforeEach(() => {
  pool = new Pool({ connectionString: readStack().gatewayDbUrl, max: 2, connectionTimeoutMillis: 900 });
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  kept = keepConnection(pool);
});
afterEach(async () => {
  kept.close();
  await pool.end();
});

async function processOf({ client }: Taken): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

/** Takes one, asks who answers, and gives it back. */
async function takeOnce(isBroken = false): Promise<number> {
  const taken = await kept.take();
  const pid = await processOf(taken);
  taken.release(isBroken);
  return pid;
}

test("it stays at hand for who comes next, and whoever comes meanwhile gets another", async () => {
  const first = await takeOnce();
  expect([pool.totalCount, pool.idleCount]).toEqual([1, 0]);
  const [one, other] = [await kept.take(), await kept.take()];
  expect([await processOf(one), await processOf(other)]).toEqual([first, expect.not.closeTo(first, 0)]);
  other.release(false);
  one.release(false);
  expect(await takeOnce()).toBe(first);
  expect([pool.totalCount, pool.idleCount]).toEqual([2, 1]);
});

test("the pool has it where no other is free, and where somebody waits for one", async () => {
  const first = await takeOnce();
  kept.lend();
  expect(pool.idleCount).toBe(1);
  kept.lend();
  const taken = [await kept.take(), await kept.take()];
  const waiting = pool.connect();
  expect(pool.waitingCount).toBe(1);
  taken[0]?.release(false);
  const heir = await waiting;
  expect(await processOf({ client: heir, release: () => {} })).toBe(first);
  heir.release();
  taken[1]?.release(false);
});

test("the pool has it where the one that is free is somebody else's already", async () => {
  const taken = [await kept.take(), await kept.take()];
  for (const { release } of taken) release(false);
  expect([pool.totalCount, pool.idleCount]).toEqual([2, 1]);
  const both = [0, 1].map(() => {
    kept.lend();
    return pool.connect();
  });
  for (const client of await Promise.all(both)) client.release();
  expect([pool.totalCount, pool.idleCount]).toEqual([2, 2]);
});

test("it leaves nothing with the pool's connections, however often one of them is kept", async () => {
  for (let time = 0; time < 20; time++) {
    await takeOnce();
    kept.lend();
  }
  const listenersOf = (client: PoolClient) => ["end", "error"].map((event) => client.listenerCount(event));
  const client = await pool.connect();
  const listeners = listenersOf(client);
  client.release();
  await takeOnce();
  const { client: again, release } = await kept.take();
  expect(listenersOf(again)).toEqual(listeners.map((count) => count + 1));
  release(false);
});

test("one that broke is closed, and so is one that the server ends while it is at hand", async () => {
  const broken = await takeOnce(true);
  const ended = await takeOnce();
  expect(ended).not.toBe(broken);
  const owner = new Pool({ connectionString: readStack().supabase.dbUrl, max: 1 });
  await owner.query("select pg_terminate_backend($1, 5000)", [ended]);
  await owner.end();
  await expect.poll(() => pool.totalCount).toBe(0);
  expect(await takeOnce()).not.toBe(ended);
  expect(pool.totalCount).toBe(1);
});

test("nobody has one that the server has said is over, even before it is closed", async () => {
  const { client, release } = await kept.take();
  const ended = await processOf({ client, release });
  release(false);
  const said = once(client, "error");
  const owner = new Pool({ connectionString: readStack().supabase.dbUrl, max: 1 });
  await owner.query("select pg_terminate_backend($1)", [ended]);
  await owner.end();
  await said;
  expect(await takeOnce()).not.toBe(ended);
});

test("one that the server ends while it is in use is closed as it is given back", async () => {
  const taken = await kept.take();
  const owner = new Pool({ connectionString: readStack().supabase.dbUrl, max: 1 });
  await owner.query("select pg_terminate_backend($1, 5000)", [await processOf(taken)]);
  await owner.end();
  await expect(taken.client.query("select 1")).rejects.toThrow();
  taken.release(false);
  await expect.poll(() => pool.totalCount).toBe(0);
  await takeOnce();
});

test("it goes back once nobody has needed it for a second, and at the end", async () => {
  await takeOnce();
  const from = performance.now();
  await expect.poll(() => pool.idleCount, { timeout: 5_000, interval: 50 }).toBe(1);
  expect(performance.now() - from).toBeGreaterThan(900);
  const taken = await kept.take();
  kept.close();
  taken.release(false);
  expect(pool.idleCount).toBe(1);
});

test("a connection that cannot be had is asked for again", async () => {
  const nowhere = keepConnection(new Pool({ connectionString: "postgres://gateway@127.0.0.1:9/postgres" }));
  await expect(nowhere.take()).rejects.toThrow();
  await expect(nowhere.take()).rejects.toThrow("ECONNREFUSED");
});
