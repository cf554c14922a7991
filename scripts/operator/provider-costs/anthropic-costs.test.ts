import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { anthropicCosts } from "./anthropic-costs.ts";

let body = "";
let asked: URL | undefined;
let headers: Record<string, unknown> = {};
const server = createServer((request, response) => {
  asked = new URL(request.url ?? "", "http://anthropic.test");
  headers = request.headers;
  response.end(body);
});
let baseUrl: string;
beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const read = (account: string) =>
  anthropicCosts({ baseUrl, adminKey: "sk-ant-admin-test" }).readPage({
    account,
    from: "2026-01-01",
    to: "2026-01-03",
    cursor: "page_1",
  });

// The format of the "Get Cost Report" on platform.claude.com. Amounts are strings in cents. workspace_id is null for
// the default workspace.
test("reads a workspace's daily costs in dollars, including the default workspace's", async () => {
  body = JSON.stringify({
    data: [
      {
        starting_at: "2026-01-01T00:00:00Z",
        ending_at: "2026-01-02T00:00:00Z",
        results: [
          { currency: "USD", amount: "123.78912", workspace_id: "wrkspc_1", description: null, cost_type: null },
          { currency: "USD", amount: "5", workspace_id: null, description: null, cost_type: null },
        ],
      },
      { starting_at: "2026-01-02T00:00:00Z", ending_at: "2026-01-03T00:00:00Z", results: [] },
    ],
    has_more: true,
    next_page: "page_2",
  });
  expect(await read("wrkspc_1")).toMatchObject({
    days: [
      { day: "2026-01-01", amountUsd: "1.2378912" },
      { day: "2026-01-02", amountUsd: undefined },
    ],
    hasMore: true,
    next: "page_2",
  });
  expect((await read("default")).days[0]).toEqual({ day: "2026-01-01", amountUsd: "0.05" });
  expect(asked?.pathname).toBe("/v1/organizations/cost_report");
  expect(Object.fromEntries(asked?.searchParams ?? [])).toEqual({
    starting_at: "2026-01-01T00:00:00Z",
    ending_at: "2026-01-03T00:00:00Z",
    bucket_width: "1d",
    limit: "31",
    "group_by[]": "workspace_id",
    page: "page_1",
  });
  expect(headers).toMatchObject({ "x-api-key": "sk-ant-admin-test", "anthropic-version": "2023-06-01" });
});

test("refuses costs in another currency, days in another time zone, and an invalid page", async () => {
  const page = (day: object) => JSON.stringify({ data: [{ results: [], ...day }], has_more: false, next_page: null });
  const results = [{ currency: "EUR", amount: "1", workspace_id: "wrkspc_1" }];
  body = page({ starting_at: "2026-01-01T00:00:00Z", results });
  await expect(read("wrkspc_1")).rejects.toThrow(
    "Anthropic states costs of wrkspc_1 in EUR; only USD can be imported.",
  );
  body = page({ starting_at: "2026-01-01T08:00:00Z" });
  await expect(read("wrkspc_1")).rejects.toThrow("is not a page of daily costs");
  body = '{"error":{}}';
  await expect(read("wrkspc_1")).rejects.toThrow("is not a page of daily costs");
});
