import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openAiPage as page, type ReportAnswer, startReportServer } from "../../testing/cost-report-server.ts";
import { openAi } from "./openai.ts";
import { openRouter } from "./openrouter.ts";
import { readReport } from "./read-report.ts";

let server: Awaited<ReturnType<typeof startReportServer>>;
beforeAll(async () => {
  server = await startReportServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.date = new Date("2026-01-06T12:00:00Z");
  server.requests = [];
});

const range = { from: "2026-01-01", to: "2026-01-05" };
const d = (day: number) => `2026-01-0${day}`;

/** Reads the report that the server answers. @returns its days, and the reason if it is incomplete */
async function read(answers: ReportAnswer[], { provider = openAi, ...options } = {}) {
  server.answers = answers;
  const source = { provider, key: "sk-admin-secret", baseUrl: server.baseUrl };
  const report = await readReport(source, {
    ...range,
    signal: new AbortController().signal,
    timeoutMs: answers.some((answer) => typeof answer === "object" && "hangs" in answer) ? 2_000 : 30_000,
    ...options,
  });
  expect(JSON.stringify(report.failure?.message ?? "")).not.toMatch(/secret|a text of the provider/);
  return {
    days: report.days.map(({ day }) => day.slice(-1)).join(""),
    end: report.end.slice(-2),
    failure: report.failure,
  };
}

const first = page(
  [
    [d(1), "1"],
    [d(2), "2"],
  ],
  { next: "page_2" },
);
const second = page([
  [d(3), ""],
  [d(4), "4"],
]);

type Case = [what: string, answers: ReportAnswer[], days: string, failure: string | undefined];

describe("a report's pages", () => {
  test.for<Case>([
    ["all pages", [first, second], "1234", undefined],
    [
      "one page without an end",
      [
        page(
          [
            [d(1), "1"],
            [d(2), ""],
            [d(3), ""],
            [d(4), ""],
          ],
          { next: "x", more: false },
        ),
      ],
      "1234",
      undefined,
    ],
    [
      "has_more is false and a cursor follows",
      [first.replace('"has_more":true', '"has_more":false'), second],
      "1234",
      undefined,
    ],
    ["an empty page in between", [first, page([], { next: "page_3" }), second], "1234", undefined],
    [
      "days in any order",
      [
        page(
          [
            [d(3), "3"],
            [d(4), "4"],
          ],
          { next: "x" },
        ),
        page([
          [d(2), ""],
          [d(1), ""],
        ]),
      ],
      "1234",
      undefined,
    ],
    [
      "days outside the range",
      [
        page([
          ["2025-12-31", "1"],
          [d(1), "1"],
          [d(2), "1"],
          [d(3), "1"],
          [d(4), "1"],
          [d(5), "1"],
        ]),
      ],
      "1234",
      undefined,
    ],
    [
      "the same day twice with one amount",
      [
        first,
        page([
          [d(2), "2"],
          [d(3), "3"],
          [d(4), "4"],
        ]),
      ],
      "1234",
      undefined,
    ],
    [
      "a late day",
      [
        page([
          [d(1), "1"],
          [d(2), "2"],
        ]),
      ],
      "12",
      undefined,
    ],
    ["an empty report", [page([])], "", undefined],
    [
      "a day without an answer between others",
      [
        page([
          [d(1), "1"],
          [d(3), "3"],
          [d(4), "4"],
        ]),
      ],
      "1",
      undefined,
    ],
    [
      "a day with two amounts",
      [
        first,
        page([
          [d(2), "2.5"],
          [d(3), "3"],
          [d(4), "4"],
        ]),
      ],
      "1",
      "OpenAI states two different costs for 2026-01-02. That day and later ones wait until it states one. Ask the provider, and import them from a file meanwhile.",
    ],
    [
      "no cursor for further pages",
      [page([[d(1), "1"]], { more: true })],
      "1",
      "OpenAI announces more days and names no next page.",
    ],
    ["a page that names itself", [first, first], "12", "OpenAI answered the same page twice."],
    [
      "a cycle of pages",
      [first, page([[d(3), "3"]], { next: "page_3" }), page([], { next: "page_2" })],
      "123",
      "OpenAI answered the same page twice.",
    ],
  ])("%s", async ([, answers, days, failure]) => {
    const report = await read(answers);
    expect([report.days, report.end, report.failure?.message]).toEqual([days, `0${days.length + 1}`, failure]);
  });

  test("stops after 100 pages", async () => {
    const endless = Array.from({ length: 120 }, (_, n) => page([], { next: `page_${n}` }));
    expect((await read(endless)).failure?.message).toBe("OpenAI answered more than 100 pages.");
    expect(server.requests).toHaveLength(101);
  });
});

describe("failures at the provider", () => {
  const keyAdvice = "OPENAI_ADMIN_KEY must be an admin key of the organization (sk-admin-…).";
  const unreadable = "OpenAI answered something that is not a page of daily costs. Check OPENAI_BASE_URL.";
  const bucket = (change: [from: string, to: string]) => page([[d(3), "3"]]).replace(...change);
  test.for<[what: string, answer: ReportAnswer, failure: string, retryAfter?: number]>([
    ["401", { status: 401 }, `OpenAI refuses the key (401, request req_1). ${keyAdvice}`],
    ["403", { status: 403 }, `OpenAI does not let this key read costs (403, request req_1). ${keyAdvice}`],
    ["404", { status: 404 }, "OpenAI refuses the request (404, request req_1). Check OPENAI_BASE_URL."],
    ["429", { status: 429, headers: { "retry-after": "120" } }, "OpenAI asks to wait (429, request req_1).", 120],
    [
      "429 for years",
      { status: 429, headers: { "retry-after": "99999999" } },
      "OpenAI asks to wait (429, request req_1).",
      86_400,
    ],
    [
      "503",
      { status: 503, headers: { "retry-after": "soon" } },
      "OpenAI is unavailable (503, request req_1). If this persists, look at its status page.",
    ],
    [
      "a redirect",
      { status: 302, headers: { location: "/elsewhere" } },
      "OpenAI could not be reached, or broke off its answer. If this persists, check OPENAI_BASE_URL.",
    ],
    [
      "no answer",
      { hangs: true },
      "OpenAI did not answer within 2 seconds, or broke off its answer. If this persists, check OPENAI_BASE_URL.",
    ],
    [
      "an answer that breaks off",
      { truncated: second.slice(0, 50) },
      "OpenAI could not be reached, or broke off its answer. If this persists, check OPENAI_BASE_URL.",
    ],
    ["truncated JSON", second.slice(0, 50), "OpenAI answered no JSON object (request req_1). Check OPENAI_BASE_URL."],
    ["an error in place of a page", '{"error": {"message": "a text of the provider"}}', unreadable],
    ["a page without has_more", '{"data": []}', unreadable],
    [
      "days in another time zone",
      bucket(['"start_time":1767398400', '"start_time":1767427200']),
      "OpenAI’s report has an unexpected value at data[0]. Import these days from a file.",
    ],
    [
      "a start beyond all dates",
      bucket(['"start_time":1767398400', '"start_time":8700480000000']),
      "OpenAI’s report has an unexpected value at data[0].start_time. Import these days from a file.",
    ],
    [
      "an amount with a comma",
      bucket(['"value":3', '"value":"1,5"']),
      "OpenAI’s report has an unexpected value at data[0].results[0].amount.value. Import these days from a file.",
    ],
    [
      "another currency",
      bucket(["usd", "eur"]),
      "OpenAI states costs in another currency than USD. Import these days from a file.",
    ],
  ])("after %s on the second page, the first page's days are kept", async ([, answer, message, retryAfter = 0]) => {
    const { days, end, failure } = await read([first, answer]);
    expect([days, end, failure?.message, failure?.retryAfterSeconds]).toEqual(["12", "03", message, retryAfter]);
  });
});

describe("the provider's clock", () => {
  const all = page([
    [d(1), "1"],
    [d(2), "2"],
    [d(3), "3"],
    [d(4), "4"],
  ]);
  test.for([
    ["2026-01-03T23:59:59Z", "12"],
    ["2026-01-04T00:29:59Z", "12"],
    ["2026-01-04T00:30:00Z", "123"],
    ["2026-01-05T00:30:00Z", "1234"],
  ])("at %s, days %s are complete", async ([now = "", days]) => {
    server.date = new Date(now);
    expect((await read([all])).days).toBe(days);
  });

  test("OpenRouter's missing days have no costs, except those that it no longer answers", async () => {
    server.date = new Date("2026-01-31T12:00:00Z");
    const data = '{"data": [{"date": "2026-01-03", "model": "m", "usage": 1}]}';
    expect(await read([data], { provider: openRouter })).toMatchObject({ days: "", end: "01" });
    server.date = new Date("2026-01-30T12:00:00Z");
    expect(await read([data], { provider: openRouter })).toMatchObject({ days: "1234", end: "05" });
  });
});
