import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createDataApi, type DataApi, type DataApiCaller } from "./data-api.ts";
import { createFaultDatabase, type FaultDatabase } from "./fault-database.ts";

const service: DataApiCaller = { kind: "secret", claims: { role: "service_role" } };
let database: FaultDatabase;
let api: DataApi;

async function ask(target: string, init?: RequestInit) {
  const url = new URL(`http://gateway/rest/v1${target}`);
  const response = await api.handle(new Request(url, init), { url, caller: service });
  return { status: response.status, body: await response.json() };
}

function sleepLong() {
  const headers = { "content-type": "application/json" };
  return ask("/rpc/fail", { method: "POST", headers, body: '{"kind":"slow"}' });
}

beforeAll(async () => {
  database = await createFaultDatabase();
  await database.applySchema();
  api = createDataApi({ databaseUrl: database.url("authenticator"), schemas: ["public"] });
});

afterAll(async () => {
  await api.close();
  await database.remove();
});

describe.each(["SIGINT", "SIGKILL"] as const)("Data API during a database outage caused by %s", (signal) => {
  test("the Data API answers 503 within a second during an outage, and recovers when the database is back", async () => {
    const asked = Promise.all(Array.from({ length: 8 }, () => sleepLong()));
    // A request's statement starts only after the schema has been read, so wait until all statements are running.
    await vi.waitFor(
      async () => {
        const running = await database.query(
          "select 1 from pg_stat_activity where query like '%fail%' and usename = 'authenticator' and state = 'active'",
          "supabase_admin",
        );
        expect(running.length).toBeGreaterThan(7);
      },
      { timeout: 10_000 },
    );
    await database.stop(signal);
    for (const { status, body } of await asked) expect([status, body.code]).toEqual([503, "PGRST000"]);
    const started = performance.now();
    expect(await ask("/notes")).toMatchObject({ status: 503, body: { code: "PGRST000" } });
    expect(performance.now() - started).toBeLessThan(1_000);
    await database.start();
    await expect.poll(async () => (await ask("/notes")).status, { timeout: 5_000 }).toBe(200);
    await database.query(`create table public.after_${signal.toLowerCase()} (id int); notify pgrst, 'reload schema'`);
    await expect.poll(async () => (await ask(`/after_${signal.toLowerCase()}`)).status, { timeout: 5_000 }).toBe(200);
  });
});
