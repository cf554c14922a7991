import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AppLoadContext } from "@remix-run/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDeploymentMetrics } from "./deployment-metrics.ts";

const ages = { oldestOpenRunSeconds: 0, sweepAgeSeconds: null, usageAgeSeconds: null, mailsDueSeconds: 0 };
const amounts = ["openRuns", "longRunningRuns", "reservedUsd", "reservedCredits", "blockedAddresses"];
const figures = {
  ...ages,
  ...Object.fromEntries([...amounts, "mailsWaiting", "mailsFailed"].map((name) => [name, 0])),
  totals: [
    { figure: "runs", label: 'a"b\nc', total: "7" },
    { figure: "figure_of_a_later_release", label: "x", total: "1" },
  ],
  memberOfALaterRelease: true,
};
let calls = 0;
const dataApi = createServer((_, response) => {
  calls += 1;
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(figures));
});
let env: AppLoadContext["env"];

beforeAll(async () => {
  await once(dataApi.listen(0, "127.0.0.1"), "listening");
  const { port } = dataApi.address() as AddressInfo;
  env = { SUPABASE_URL: `http://127.0.0.1:${port}`, SUPABASE_SECRET_KEY: "secret" } as typeof env;
});
afterAll(() => void dataApi.close());

test("figures that a later release added to the database are left out, and labels are escaped", async () => {
  const text = await (await createDeploymentMetrics(env).respond("r")).text();
  expect(text).toContain('gatehouse_runs_total{provider="a\\"b\\nc"} 7\n');
  expect(text).not.toContain("later");
});

test("fifty concurrent scrapes ask the database once, and again after five seconds", async () => {
  let now = 0;
  const { respond } = createDeploymentMetrics(env, () => now);
  calls = 0;
  await Promise.all(Array.from({ length: 50 }, () => respond("r")));
  now = 4_999;
  await respond("r");
  expect(calls).toBe(1);
  now = 5_000;
  await respond("r");
  expect(calls).toBe(2);
});
