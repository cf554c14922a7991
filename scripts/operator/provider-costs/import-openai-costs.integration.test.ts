import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AppTenant, createAppTenant } from "../../../supabase/tests/gateway/app-tenant.ts";

const run = promisify(execFile);
const daySeconds = 86_400;
const secondOf = (day: string) => Date.parse(`${day}T00:00:00Z`) / 1_000;
const dayOf = (second: number) => new Date(second * 1_000).toISOString().slice(0, 10);

/**
 * Serves OpenAI's costs API, as far as it is documented: daily buckets, pages of at most `limit`, groups by project.
 */
const openAi = {
  adminKey: "sk-admin-test",
  /** The `results` of each day as JSON text, so that numbers keep all their digits. */
  days: new Map<string, string>(),
  /** Statuses of the next responses, where 0 means success. All later responses succeed. */
  failures: [] as number[],
  asked: [] as URLSearchParams[],
  /** If set, responses contain only days before this day, even if the requested range is longer. */
  endsBefore: undefined as string | undefined,
};
const server = createServer((request, response) => {
  const url = new URL(request.url ?? "", "http://openai.test");
  const answer = (status: number, body: string) => {
    response.writeHead(status, { "content-type": "application/json", "retry-after": "0" });
    response.end(body);
  };
  if (request.method !== "GET" || url.pathname !== "/v1/organization/costs") return answer(404, "{}");
  if (request.headers.authorization !== `Bearer ${openAi.adminKey}`)
    return answer(401, '{"error":{"code":"invalid_api_key"}}');
  const failure = openAi.failures.shift();
  if (failure) return answer(failure, '{"error":{"code":"failure"}}');
  const query = url.searchParams;
  openAi.asked.push(query);
  const limit = Math.min(Number(query.get("limit") ?? 7), 2);
  const end = openAi.endsBefore ? secondOf(openAi.endsBefore) : Number(query.get("end_time"));
  const start = Number(query.get("page")?.replace("page_", "") ?? query.get("start_time"));
  const next = start + limit * daySeconds;
  const buckets: string[] = [];
  for (let at = start; at < Math.min(next, end); at += daySeconds) {
    const results = openAi.days.get(dayOf(at)) ?? "";
    buckets.push(`{"object":"bucket","start_time":${at},"end_time":${at + daySeconds},"results":[${results}]}`);
  }
  const more = next < end;
  answer(
    200,
    `{"object":"page","data":[${buckets}],"has_more":${more},"next_page":${more ? `"page_${next}"` : "null"}}`,
  );
});

let tenant: AppTenant;
let baseUrl: string;
beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  tenant = await createAppTenant();
});
afterAll(async () => {
  server.close();
  await tenant.close();
});

const result = (value: string, { project = "proj_app", currency = "usd" } = {}) =>
  `{"object":"organization.costs.result","amount":{"value":${value},"currency":"${currency}"},"line_item":null,"project_id":"${project}"}`;

/** Runs the command. @returns its standard output, standard error and exit code */
async function command(args: string[], env: Record<string, string> = {}) {
  const options = {
    env: {
      ...process.env,
      OPENAI_ADMIN_KEY: openAi.adminKey,
      OPENAI_BASE_URL: baseUrl,
      GATEHOUSE_AI_URL: String(tenant.client.baseURL),
      GATEHOUSE_AI_KEY: tenant.key,
      GATEHOUSE_WORKSPACE_ID: tenant.workspaceId,
      ...env,
    },
  };
  return run(process.execPath, ["scripts/operator/import-costs.ts", "openai", ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}
const newState = () => join(mkdtempSync(join(tmpdir(), "openai-costs-")), "state.json");
const imported = () =>
  tenant.db.query(
    `select external_run_id as id, trim_scale(amount_usd)::text as amount, account_id as account, granularity, revision
     from ai.external_provider_costs where workspace_id = $1 order by occurred_at, external_run_id`,
    [tenant.workspaceId],
  );
const forget = () =>
  tenant.db.query("delete from ai.external_provider_costs where workspace_id = $1", [tenant.workspaceId]);

test("imports a project's costs exactly, as one amount a day, although OpenAI is temporarily busy between pages", async () => {
  openAi.days = new Map([
    ["2026-01-30", `${result("0.1")},${result("0.2")},${result("9", { project: "proj_other" })}`],
    ["2026-01-31", result("0.13080438340307526")],
    ["2026-02-01", result('"0.8958740000000000"')],
    ["2026-02-02", ""],
    ["2026-02-03", result("1.5e-7")],
    ["2026-02-04", result("7")],
  ]);
  openAi.failures = [503, 429];
  openAi.asked = [];
  const state = newState();
  const args = ["--project", "proj_app", "--from", "2026-01-30", "--to", "2026-02-04", "--state", state];
  const first = await command(args);
  expect([first.code, first.stdout]).toEqual([0, "Days imported: 4 stored.\n"]);
  expect(first.stderr).toContain("proj_app: days 5 of 5");
  const day = (of: string, amount: string) => ({
    id: `openai-costs:proj_app:${of}`,
    amount,
    account: "proj_app",
    granularity: "account_day",
    revision: 1,
  });
  const days = [
    day("2026-01-30", "0.3"),
    day("2026-01-31", "0.130804383403"),
    day("2026-02-01", "0.895874"),
    day("2026-02-03", "0.00000015"),
  ];
  expect(await imported()).toEqual(days);
  expect(openAi.asked).toHaveLength(3);
  expect(Object.fromEntries(openAi.asked[0] ?? [])).toEqual({
    start_time: String(secondOf("2026-01-30")),
    end_time: String(secondOf("2026-02-04")),
    bucket_width: "1d",
    limit: "90",
    "project_ids[]": "proj_app",
    "group_by[]": "project_id",
  });
  expect(Object.values(JSON.parse(readFileSync(state, "utf8")))).toEqual([
    { through: "2026-02-04", charged: ["2026-01-30", "2026-01-31", "2026-02-01", "2026-02-03"] },
  ]);
  await forget();
});

test("continues an interrupted import, and reads the last days again for OpenAI's corrections", async () => {
  openAi.days = new Map(
    Array.from({ length: 20 }, (_, n) => [dayOf(secondOf("2026-03-01") + n * daySeconds), result(String(n))]),
  );
  const state = newState();
  const args = ["--project", "proj_app", "--state", state, "--to", "2026-03-21"];
  openAi.failures = [];
  const whole = await command([...args, "--from", "2026-03-01"], { GATEHOUSE_WORKSPACE_ID: randomUUID() });
  expect([whole.code, whole.stderr]).toEqual([
    1,
    expect.stringContaining("The gateway does not allow this with the key (403, workspace_mismatch)"),
  ]);
  expect(await imported()).toEqual([]);
  // Five pages, and then the key is revoked.
  openAi.asked = [];
  openAi.failures = [0, 0, 0, 0, 0, 403];
  const cut = await command([...args, "--from", "2026-03-01"]);
  expect([cut.code, cut.stderr]).toEqual([
    1,
    expect.stringContaining("OpenAI does not allow this with the key (403, failure)"),
  ]);
  expect(await imported()).toHaveLength(10);
  openAi.asked = [];
  openAi.days.set("2026-03-10", result("9.5"));
  const rest = await command(args);
  expect([rest.code, rest.stdout]).toEqual([0, "Days imported: 7 corrected, 10 stored.\n"]);
  expect(openAi.asked[0]?.get("start_time")).toBe(String(secondOf("2026-03-04")));
  const all = await imported();
  expect(all).toHaveLength(20);
  expect(all.find(({ id }) => id === "openai-costs:proj_app:2026-03-10")).toMatchObject({ amount: "9.5", revision: 2 });
  await forget();
});

test("sets a day to zero if it had a cost and OpenAI now reports none", async () => {
  openAi.failures = [];
  openAi.days = new Map([
    ["2026-06-01", result("1")],
    ["2026-06-02", result("2")],
    ["2026-06-03", ""],
  ]);
  const args = ["--project", "proj_app", "--to", "2026-06-04", "--state", newState()];
  const amounts = async () => (await imported()).map(({ amount }) => amount);
  expect((await command([...args, "--from", "2026-06-01"])).stdout).toBe("Days imported: 2 stored.\n");
  openAi.days.set("2026-06-02", "");
  expect((await command(args)).stdout).toBe("Days imported: 2 corrected.\n");
  expect(await amounts()).toEqual(["1", "0"]);

  expect((await command(args)).stdout).toBe("Days imported: 1 corrected.\n");
  openAi.days.set("2026-06-02", result("0.5"));
  expect((await command(args)).code).toBe(0);
  openAi.days.set("2026-06-02", result("0", { project: "proj_other" }));
  expect((await command(args)).code).toBe(0);
  expect(await amounts()).toEqual(["1", "0"]);
  await forget();
});

test("the OpenAI cost import reports a day that the gateway refuses, imports all other days, and retries that day at the next run", async () => {
  openAi.failures = [];
  openAi.days = new Map(
    ["1", "-2", "3", "4", "5"].map((amount, n) => [dayOf(secondOf("2026-05-01") + n * daySeconds), result(amount)]),
  );
  const state = newState();
  const args = ["--project", "proj_app", "--from", "2026-05-01", "--to", "2026-05-06", "--state", state];
  const { code, stderr } = await command(args);
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining(
      "All other days are imported. The gateway refuses openai-costs:proj_app:2026-05-02: invalid_request.",
    ),
  ]);
  expect((await imported()).map(({ amount }) => amount)).toEqual(["1", "3", "4", "5"]);
  const done = () =>
    Object.values<{ through: string }>(JSON.parse(readFileSync(state, "utf8"))).map(({ through }) => through);
  expect(done()).toEqual(["2026-05-02"]);

  openAi.days.set("2026-05-02", result("2"));
  expect((await command(["--project", "proj_app", "--to", "2026-05-06", "--state", state])).code).toBe(0);
  expect((await imported()).map(({ amount }) => amount)).toEqual(["1", "2", "3", "4", "5"]);
  expect(done()).toEqual(["2026-05-06"]);
  await forget();
});

test("the import's bookmark stops at the first day that OpenAI does not return, or whose corrected amount the gateway refuses", async () => {
  openAi.failures = [];
  openAi.days = new Map(
    Array.from({ length: 20 }, (_, n) => [dayOf(secondOf("2026-07-01") + n * daySeconds), result("1")]),
  );
  const state = newState();
  const args = ["--project", "proj_app", "--to", "2026-07-21", "--state", state];
  const through = () =>
    Object.values<{ through: string }>(JSON.parse(readFileSync(state, "utf8"))).map((bookmark) => bookmark.through);
  openAi.endsBefore = "2026-07-04";
  const short = await command([...args, "--from", "2026-07-01"]);
  expect([short.code, short.stdout]).toEqual([
    0,
    "Days imported: 3 stored.\nproj_app: not answered from 2026-07-04 on. The next run asks for these days again.\n",
  ]);
  expect(through()).toEqual(["2026-07-04"]);
  openAi.endsBefore = undefined;
  expect((await command(args)).stdout).toContain("17 stored");
  expect(through()).toEqual(["2026-07-21"]);

  openAi.days.set("2026-07-15", result("-1"));
  expect((await command(args)).code).toBe(1);
  expect(through()).toEqual(["2026-07-15"]);
  await forget();
});

test("explains each import failure in a sentence", async () => {
  openAi.failures = [];
  openAi.days = new Map([["2026-04-01", result("1", { currency: "eur" })]]);
  const range = ["--from", "2026-04-01", "--to", "2026-04-02", "--state", newState()];
  const cases: [string[], Record<string, string>, string][] = [
    [["--project", "proj_app", ...range], { OPENAI_ADMIN_KEY: "wrong" }, "OpenAI refuses the key (401).\n"],
    [["--project", "proj_app", ...range], {}, "OpenAI states costs of proj_app in eur; only USD can be imported.\n"],
    [["--project", "proj_app", ...range], { OPENAI_BASE_URL: `${baseUrl}/x` }, "OpenAI refuses the request (404).\n"],
    [["--project", "a b"], {}, "name a project by its id"],
    [[], {}, "project: "],
    [["--project", "p", "--from", "2026-04-02", "--to", "2026-04-02"], {}, "--from must be before --to.\n"],
    [["--project", "p"], { GATEHOUSE_AI_KEY: "" }, "GATEHOUSE_AI_KEY: "],
  ];
  const said = await Promise.all(cases.map(([args, env]) => command(args, env)));
  for (const [n, { code, stderr }] of said.entries()) {
    expect([code, stderr]).toEqual([1, expect.stringContaining(cases[n]?.[2] ?? "?")]);
  }
  expect(await imported()).toEqual([]);
});
