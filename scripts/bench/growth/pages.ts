import type pg from "pg";
import type { Stack } from "../../test/stack.ts";
import { median } from "../statistics.ts";
import type { GrowthTenant } from "./data.ts";
import type { Bound } from "./operations.ts";

/** Times of pages and calls in ms, with the size of their answers in bytes. */
export type PageTimes = { what: string; bound: Bound; ms: number; bytes: number }[];

const warmUp = 5;
const readings = 15;
/** Reads the sums of each day, whose number is bounded, and renders them. */
const sums = { maxMs: 200 } as const;
/** Reads and returns each model of the catalogue, whose number does not grow with the data. */
const modelList = { maxMs: 100 } as const;

/** Returns how long the gateway's responses and the workspace owner's pages take, each read to the last byte. */
export async function timePages(
  stack: Stack,
  { client, tenant, webUrl, cookie }: { client: pg.Client; tenant: GrowthTenant; webUrl: string; cookie: string },
): Promise<PageTimes> {
  const workspace = `/workspaces/${tenant.workspaceId}`;
  const asOwner = { headers: { cookie, accept: "text/html", "x-forwarded-for": "2001:db8::1" } };
  const ownerPage = (path: string) => [new URL(path, webUrl), asOwner] as const;
  const byKey = { authorization: `Bearer ${stack.aiKey}`, "content-type": "application/json" };
  const functions = stack.services.find(({ name }) => name === "functions");
  const gateway = (path: string) => new URL(path, `http://127.0.0.1:${functions?.port}`);
  const chat = JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] });
  const dayAgo = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  const calls: [what: string, bound: Bound, url: URL, init: RequestInit][] = [
    ["chat call", "constant", gateway("/chat/completions"), { method: "POST", headers: byKey, body: chat }],
    ["page: runs", "constant", ...ownerPage(`${workspace}/ai/runs`)],
    ["page: overview", sums, ...ownerPage(`${workspace}/ai`)],
    ["page: overview by model", sums, ...ownerPage(`${workspace}/ai?by=model`)],
    ["page: overview by member", sums, ...ownerPage(`${workspace}/ai?by=member`)],
    ["page: overview by label", sums, ...ownerPage(`${workspace}/ai?by=label`)],
    ["page: credits", sums, ...ownerPage(`${workspace}/ai/credits`)],
    [
      "file: credits of a day",
      { linear: "returns the day's entries" },
      ...ownerPage(`${workspace}/ai/credits.csv?from=${dayAgo}&to=${dayAgo}`),
    ],
    ["file: usage by member", sums, ...ownerPage(`${workspace}/ai/usage.csv?by=member`)],
    ["page: costs", sums, ...ownerPage(`${workspace}/ai/costs`)],
    ["page: members", "constant", ...ownerPage(`${workspace}/members`)],
    ["page: security", "constant", ...ownerPage("/settings/security")],
  ];
  const times: PageTimes = [];
  for (const [what, bound, url, init] of calls) times.push({ what, bound, ...(await timeFetch(url, init)) });
  for (const models of [5, 50, 500]) {
    await haveModels(client, models);
    const timed = await timeFetch(gateway("/models"), { headers: byKey });
    times.push({ what: `GET /v1/models, ${models} models`, bound: modelList, ...timed });
  }
  await haveModels(client, 0);
  return times;
}

/** Adds or removes models of the growth bench until the demo user's plan has `models` models. */
async function haveModels(client: pg.Client, models: number): Promise<void> {
  for (const table of ["ai.model_grants", "ai.model_prices", "ai.model_routes"]) {
    await client.query(`delete from ${table} where model_id like 'growth-model-%'`);
  }
  await client.query("delete from ai.models where id like 'growth-model-%'");
  await client.query(addModels, [models]);
}

const addModels = `
  with missing as (
    select format('growth-model-%s', n) as id
    from generate_series(1, $1::integer - (select count(*)::integer from ai.model_grants where plan_id = 'free')) n
  ), models as (
    insert into ai.models (id, kind, display_name, owned_by) select id, 'chat', id, 'growth' from missing
  ), routes as (
    insert into ai.model_routes (model_id, position, provider_id, provider_model) select id, 1, 'demo', id from missing
  ), prices as (
    insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
    select id, 'demo', 0.15, 0.6 from missing
  )
  insert into ai.model_grants (model_id, plan_id) select m.id, p.id from missing m, ai.plans p where p.id in ('free', 'team')`;

async function timeFetch(url: URL, init: RequestInit): Promise<{ ms: number; bytes: number }> {
  const tookMs: number[] = [];
  let bytes = 0;
  for (let reading = 0; reading < warmUp + readings; reading += 1) {
    const before = performance.now();
    const response = await fetch(url, init);
    const body = await response.bytes();
    if (!response.ok) {
      throw new Error(`${url.pathname} answered ${response.status}: ${new TextDecoder().decode(body).slice(0, 500)}`);
    }
    if (reading >= warmUp) tookMs.push(performance.now() - before);
    bytes = body.byteLength;
  }
  return { ms: median(tookMs), bytes };
}
