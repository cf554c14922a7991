import { expect, test } from "vitest";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createReadiness } from "./readiness.ts";

const providers = new Map([["demo", {}]]);

function createCheck({ ping = async () => {}, at = { ms: 0 } }: { ping?: () => Promise<void>; at?: { ms: number } }) {
  return createReadiness({ connections: { ping }, providers, now: () => at.ms, report: () => {} });
}

test("is ready if the database answers and a provider is configured", async () => {
  expect(await createCheck({})()).toBeUndefined();
});

test("without a provider, says so without a query", async () => {
  const connections = { ping: () => Promise.reject(new Error("a query")) };
  const check = createReadiness({ connections, providers: new Map(), now: () => 0, report: () => {} });
  expect(await check()).toBe("No model provider is configured.");
});

test("says that the database does not answer, and reports the cause", async () => {
  const cause = new Error("connect ECONNREFUSED");
  const reported: unknown[] = [];
  const ping = () => Promise.reject(new GatewayError("service_unavailable", { cause }));
  const check = createReadiness({
    connections: { ping },
    providers,
    now: () => 0,
    report: (error) => void reported.push(error),
  });
  expect(await check()).toBe("The database does not answer.");
  expect(reported).toEqual([cause]);
});

test("queries the database once for concurrent checks, and again after a second", async () => {
  let pings = 0;
  const at = { ms: 0 };
  const check = createCheck({ ping: async () => void pings++, at });
  await Promise.all([check(), check()]);
  at.ms = 999;
  await check();
  expect(pings).toBe(1);
  at.ms = 1_000;
  await check();
  expect(pings).toBe(2);
});
