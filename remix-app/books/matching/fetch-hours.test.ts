import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type ReportAnswer, startReportServer } from "../../testing/cost-report-server.ts";
import { openAiHourPage } from "../../testing/usage-pages.ts";
import { anthropic } from "../importer/anthropic.ts";
import { openAi } from "../importer/openai.ts";
import { fetchHours } from "./fetch-hours.ts";

const day = "2026-01-05";
let server: Awaited<ReturnType<typeof startReportServer>>;
beforeAll(async () => {
  server = await startReportServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.date = new Date("2026-01-06T12:00:00Z");
  server.requests = [];
});

/** Asks a provider that answers like this. @returns each hour's counts as text, or the reason of a failure */
async function ask(answers: ReportAnswer[], { provider = openAi, timeoutMs = 1_000 } = {}) {
  server.answers = answers;
  const source = { provider, key: "sk-admin-secret", baseUrl: server.baseUrl };
  try {
    return (await fetchHours(source, { day, timeoutMs })).map(
      ({ hour, keyId, model, requests, ...tokens }) =>
        `${hour.slice(11, 16)} ${keyId} ${model} ${requests} ${Object.values(tokens).join("/")}`,
    );
  } catch (error) {
    expect(String(error)).not.toMatch(/secret|a text of the provider/);
    return (error as Error).message;
  }
}

const none = openAiHourPage(day, {});

// https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/completions
// and …/embeddings, which has no output.
test("reads OpenAI's completions page by page and its embeddings, by hour, key and model", async () => {
  const result = (model: string, key: string | null, counts: object) => ({
    ...{ object: "organization.usage.completions.result", project_id: null, user_id: null, batch: null },
    ...{ api_key_id: key, model, ...counts },
  });
  const gpt = { input_tokens: 1000, input_cached_tokens: 800, input_cache_write_tokens: 20, output_tokens: 500 };
  const hours = await ask([
    openAiHourPage(
      day,
      { 0: [result("gpt-4o-2024-08-06", "key_1", { ...gpt, num_model_requests: 5 })] },
      { to: 12, next: "page_2" },
    ),
    openAiHourPage(
      day,
      {
        13: [
          result("gpt-4o-2024-08-06", null, { input_tokens: 7, output_tokens: 1, num_model_requests: 1 }),
          result("gpt-4o-2024-08-06", null, { input_tokens: 3, output_tokens: 1, num_model_requests: 1 }),
        ],
      },
      { from: 12 },
    ),
    openAiHourPage(day, {
      23: [result("text-embedding-3-small", "key_1", { input_tokens: 16, num_model_requests: 2 })],
    }),
  ]);
  expect(hours).toEqual([
    "00:00 key_1 gpt-4o-2024-08-06 5 1000/800/20/500",
    "13:00 null gpt-4o-2024-08-06 1 7/0/0/1",
    "13:00 null gpt-4o-2024-08-06 1 3/0/0/1",
    "23:00 key_1 text-embedding-3-small 2 16/0/0/0",
  ]);
  expect(server.requests.map(({ url }) => [url.pathname, url.searchParams.get("page")])).toEqual([
    ["/organization/usage/completions", null],
    ["/organization/usage/completions", "page_2"],
    ["/organization/usage/embeddings", null],
  ]);
  const [first] = server.requests;
  expect([...(first?.url.searchParams ?? [])]).toEqual([
    ["start_time", "1767571200"],
    ["end_time", "1767657600"],
    ["bucket_width", "1h"],
    ["limit", "24"],
    ["group_by[]", "model"],
    ["group_by[]", "api_key_id"],
  ]);
  expect(first?.headers.authorization).toBe("Bearer sk-admin-secret");
});

// https://platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages: the API key is null for the Console.
test("reads Anthropic's messages, whose input does not include what is cached", async () => {
  const result = {
    ...{
      api_key_id: "apikey_01Rj2N8SVvo6BePZj99NhmiT",
      model: "claude-sonnet-4-20250514",
      uncached_input_tokens: 1500,
    },
    ...{
      cache_creation: { ephemeral_1h_input_tokens: 1000, ephemeral_5m_input_tokens: 500 },
      cache_read_input_tokens: 200,
    },
    ...{ output_tokens: 500, server_tool_use: { web_search_requests: 10 }, context_window: null, service_tier: null },
    workspace_id: null,
  };
  const page = {
    data: Array.from({ length: 24 }, (_, hour) => ({
      starting_at: `${day}T${String(hour).padStart(2, "0")}:00:00Z`,
      ending_at: new Date(Date.parse(day) + (hour + 1) * 3_600_000).toISOString(),
      results: hour === 4 ? [result, { ...result, api_key_id: null, cache_creation: null }] : [],
    })),
    has_more: false,
    next_page: null,
  };
  expect(await ask([JSON.stringify(page)], { provider: anthropic })).toEqual([
    "04:00 apikey_01Rj2N8SVvo6BePZj99NhmiT claude-sonnet-4-20250514 null 3200/200/1500/500",
    "04:00 null claude-sonnet-4-20250514 null 1700/200/0/500",
  ]);
  const [{ url, headers } = { url: new URL("x:"), headers: {} }] = server.requests;
  expect([url.pathname, headers["x-api-key"]]).toEqual(["/v1/organizations/usage_report/messages", "sk-admin-secret"]);
  expect([...url.searchParams]).toEqual([
    ["starting_at", "2026-01-05T00:00:00Z"],
    ["ending_at", "2026-01-06T00:00:00Z"],
    ["bucket_width", "1h"],
    ["limit", "24"],
    ["group_by[]", "api_key_id"],
    ["group_by[]", "model"],
  ]);
});

const one = (input_tokens: number | string) => ({
  3: [{ model: "m", api_key_id: "k", num_model_requests: 1, input_tokens, output_tokens: 1 }],
});
const notHours = "OpenAI answered something that is not a page of hourly usage. Check OPENAI_BASE_URL.";
type Case = [what: string, answers: ReportAnswer[], failure: string];
test.for<Case>([
  [
    "an error",
    [none, { status: 500 }],
    "OpenAI is unavailable (500, request req_1). If this persists, look at its status page.",
  ],
  [
    "a missing hour",
    [openAiHourPage(day, {}, { to: 23 })],
    "OpenAI answered 23 of the day’s 24 hours. Ask again later.",
  ],
  [
    "a missing hour of embeddings",
    [none, openAiHourPage(day, {}, { from: 1 })],
    "OpenAI answered 23 of the day’s 24 hours. Ask again later.",
  ],
  [
    "no next page",
    [openAiHourPage(day, {}, { to: 12, more: true })],
    "OpenAI announces more hours and names no next page.",
  ],
  ["a repeated page", [openAiHourPage(day, {}, { next: "page_2" })], "OpenAI answered the same page twice."],
  [
    "a page without an answer",
    [openAiHourPage(day, {}, { to: 12, next: "page_2" }), { hangs: true }],
    "OpenAI did not answer within 1 seconds, or broke off its answer. If this persists, check OPENAI_BASE_URL.",
  ],
  [
    "two counts for an hour",
    [openAiHourPage(day, one(1), { next: "page_2" }), openAiHourPage(day, one(2))],
    "OpenAI states two different counts for 03:00 UTC. Ask again.",
  ],
  ["days instead of hours", ['{"data": [{"start_time": 1767571201, "results": []}], "has_more": false}'], notHours],
  [
    "a start that is no date",
    ['{"data": [{"start_time": 9000000000000, "results": []}], "has_more": false}'],
    notHours,
  ],
  ["a control character in a name", [openAiHourPage(day, { 3: [{ ...one(1)[3][0], model: "m\u0000" }] })], notHours],
  ["a lone surrogate in a name", [openAiHourPage(day, { 3: [{ ...one(1)[3][0], model: "m\ud800" }] })], notHours],
  ["a count of 13 digits", [openAiHourPage(day, one(1_000_000_000_000))], notHours],
  ["a negative count", [openAiHourPage(day, one(-1))], notHours],
  ["a fraction", [openAiHourPage(day, one("1.5"))], notHours],
  ["another format", ['{"object": "list"}'], notHours],
])("stores nothing of an answer with %s", async ([, answers, failure]) => {
  expect(await ask(answers)).toBe(failure);
});

test("reads a count of 12 digits", async () => {
  expect(await ask([openAiHourPage(day, one(999_999_999_999)), none])).toEqual(["03:00 k m 1 999999999999/0/0/1"]);
});

test("asks only about days that ended half an hour ago, by both clocks", async () => {
  server.date = new Date("2026-01-06T00:29:59Z");
  expect(await ask([none])).toBe("The day is not complete at OpenAI. Ask half an hour after its end in UTC.");
  server.date = new Date("2026-01-06T00:30:00Z");
  expect(await ask([none])).toEqual([]);
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  const source = { provider: openAi, key: "k", baseUrl: server.baseUrl };
  server.requests = [];
  await expect(fetchHours(source, { day: tomorrow })).rejects.toThrow("The day is not complete");
  expect(server.requests).toEqual([]);
});
