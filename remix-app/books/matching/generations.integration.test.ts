import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AppLoadContext } from "@remix-run/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createConsoleAdmin } from "../../../scripts/test/console-admin.ts";
import { mailEnv } from "../../../scripts/test/mail-env.ts";
import { createPerson, deletePerson } from "../../../scripts/test/people.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { platformBookId } from "../../studio/costs/platform-book.ts";
import { fetchGenerations } from "./fetch-generations.ts";
import { readGenerations } from "./read-generations.ts";

/** Long ago, so that no other test has runs on it. */
const day = "2019-04-05";
const { db, close } = openPool(1);

/** Calls that OpenRouter doesn't know yet. */
const unknown = new Set<string>();
let limit = Number.POSITIVE_INFINITY;
const requestedIds: string[] = [];
const server = createServer((request, response) => {
  const id = new URL(request.url ?? "", "http://provider.test").searchParams.get("id") ?? "";
  if (requestedIds.length >= limit) return void response.writeHead(429, { "retry-after": "7" }).end();
  requestedIds.push(id);
  if (unknown.has(id)) return void response.writeHead(404).end();
  const cost = id === "gen-3" ? "0.5" : "0.000015";
  response.end(`{"data": {"id": "${id}", "total_cost": ${cost}, "is_byok": false}}`);
});

let context: AppLoadContext;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  context = {
    env: { ...mailEnv, OPENROUTER_ADMIN_KEY: "sk-or-secret", OPENROUTER_BASE_URL: `http://127.0.0.1:${port}` },
    requestId: "request-1",
    clientAddress: "192.0.2.1",
  } as AppLoadContext;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await db.query(
    "delete from ai.generation_costs g using ai.runs r where r.id = g.run_id and r.created_at::date = $1",
    [day],
  );
  await db.query("delete from ai.runs where created_at >= $1::date and created_at < $1::date + 1", [day]);
  await close();
});

test("the calls of a day are asked part by part, never twice by mistake, and again on request", async () => {
  const [admin, stranger] = await Promise.all([createConsoleAdmin(), createPerson()]);
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route, markup,
       status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at, attempts
     )
     select gen_random_uuid(), $1::timestamp at time zone 'UTC' + n * interval '1 minute', gen_random_uuid(), 'key',
       'interactive', 'chat', 'request', 'model', '[{"position": 1, "provider": "openrouter"}]', 1, 1, 'succeeded',
       'provider', 0.000015, 0, 0, now(),
       jsonb_build_array(jsonb_build_object('provider', 'openrouter', 'upstream_request_id', 'gen-' || n))
     from generate_series(1, 210) n`,
    [day],
  );
  const readerOf = ({ id }: { id: string }) => ({ userId: id, workspaceId: platformBookId });
  const reader = readerOf(admin);
  const ask = (fields: Record<string, string> = {}) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    return fetchGenerations(context, { reader, day, form });
  };
  const read = async (query = "") => {
    const url = new URL(`http://gatehouse.test/${query}`);
    return readGenerations(context, { reader, day, url });
  };
  const figures = async () =>
    (await read()).states.map(({ state, calls, chargedUsd }) => `${state} ${calls} ${chargedUsd}`);

  unknown.add("gen-1");
  limit = 50;
  const limited = await ask();
  expect(limited).toMatchObject({ unknown: 1, observedBefore: null, failure: { retryAfterSeconds: 7 } });
  expect(limited.answered + limited.remaining).toBe(210);
  expect(limited.answered).toBe(50);
  limit = Number.POSITIVE_INFINITY;
  expect(await figures()).toEqual(["differs 1 0.5", "unknown 1 0", "pending 160 0", "equal 48 0.00072"]);

  // The unknown call comes last.
  expect(await ask()).toEqual({ answered: 161, unknown: 1, remaining: 0, observedBefore: null, failure: null });
  expect(requestedIds).toHaveLength(211);
  expect(requestedIds.at(-1)).toBe("gen-1");
  unknown.clear();
  expect(await ask()).toMatchObject({ answered: 1, unknown: 0, remaining: 0 });
  expect(await ask()).toMatchObject({ answered: 0, remaining: 0, failure: null });
  const before = await read();
  expect(before).toMatchObject({ total: 1, skipped: 0, missingKey: null });
  expect(before.runs).toMatchObject([{ chargedUsd: "0.5", differenceUsd: "0.499985" }]);
  expect(await read("?runs=1")).toMatchObject({ runs: [], total: 1, skipped: 1 });
  expect(await read("?runs=x")).toMatchObject({ skipped: 0 });

  const again = await ask({ observedBefore: before.asOf });
  expect(again).toMatchObject({ answered: 200, remaining: 10, observedBefore: new Date(before.asOf).toISOString() });
  expect(await ask({ observedBefore: before.asOf })).toMatchObject({ answered: 10, remaining: 0 });
  expect(await ask({ observedBefore: before.asOf })).toMatchObject({ answered: 0, remaining: 0 });

  const other = readerOf(stranger);
  await expect(readGenerations(context, { reader: other, day, url: new URL("http://a.test") })).rejects.toMatchObject({
    status: 403,
  });
  await expect(fetchGenerations(context, { reader: other, day, form: new FormData() })).rejects.toMatchObject({
    status: 403,
  });
  const unconfigured = { ...context, env: { ...mailEnv } } as AppLoadContext;
  await expect(fetchGenerations(unconfigured, { reader, day, form: new FormData() })).rejects.toMatchObject({
    status: 400,
  });
  expect(await readGenerations(unconfigured, { reader, day, url: new URL("http://a.test") })).toMatchObject({
    missingKey: "OPENROUTER_ADMIN_KEY",
  });
  await Promise.all([admin, stranger].map(deletePerson));
});
