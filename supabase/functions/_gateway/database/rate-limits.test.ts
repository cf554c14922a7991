import { describe, expect, test } from "vitest";
import { isNearTokenLimit, rateLimitHeaders, readRateLimits, runLimitHeaders } from "./rate-limits.ts";

const minute = "2026-11-26T07:31:00+00:00";
const at = "2026-11-26T07:31:16.123456+00:00";
const read = (counts: (number | null)[], told: { minute?: string | null; at?: string } = {}) =>
  readRateLimits({ minute: told.minute === undefined ? minute : told.minute, counts }, told.at ?? at);
const none = [null, null, null, null];

describe("remaining requests and tokens under rate limits", () => {
  test("the remaining calls are read from the key's limits if the workspace has none", () => {
    expect(read([10, 3, 1_000, 250, ...none])).toEqual({
      requests: { scope: "key", limit: 10, remaining: 7 },
      tokens: { scope: "key", limit: 1_000, remaining: 750 },
      resetSeconds: 44,
    });
  });

  test("reports the workspace's remaining requests or tokens if the key has no limit on them", () => {
    expect(read([...none, 10, 3, null, null])).toEqual({
      requests: { scope: "workspace", limit: 10, remaining: 7 },
      resetSeconds: 44,
    });
    expect(read([5, 5, null, null, null, null, 900, 100])).toMatchObject({
      requests: { scope: "key", limit: 5, remaining: 0 },
      tokens: { scope: "workspace", limit: 900, remaining: 800 },
    });
  });

  test.for([
    { key: [10, 4], workspace: [100, 95], requests: { scope: "workspace", limit: 100, remaining: 5 } },
    { key: [10, 6], workspace: [100, 95], requests: { scope: "key", limit: 10, remaining: 4 } },
    { key: [10, 5], workspace: [100, 95], requests: { scope: "key", limit: 10, remaining: 5 } },
  ])(
    "remaining calls are reported for the workspace if it has fewer than the key, otherwise for the key: %o",
    ({ key, workspace, requests }) => {
      expect(read([...key, null, null, ...workspace, null, null]).requests).toEqual(requests);
    },
  );

  test("the remainder of a rate limit is never negative, even if the limit was lowered within the window", () => {
    expect(read([10, 25, 100, 101, ...none])).toMatchObject({
      requests: { limit: 10, remaining: 0 },
      tokens: { limit: 100, remaining: 0 },
    });
  });

  test("no remainder is reported for a limit that was not checked or does not exist, even if calls were counted", () => {
    expect(read([10, 10, null, 500, 7, null, 8, null])).toEqual({
      requests: { scope: "key", limit: 10, remaining: 0 },
      tokens: undefined,
      resetSeconds: 44,
    });
    expect(read([...none, ...none], { minute: null })).toEqual({});
  });

  test.for([
    ["2026-11-26T07:31:00+00:00", 60],
    ["2026-11-26T07:31:00.000001+00:00", 60],
    ["2026-11-26T07:31:00.001+00:00", 60],
    ["2026-11-26T07:31:01+00:00", 59],
    ["2026-11-26T07:31:59.999999+00:00", 1],
    // A call that waited for the window's row lock may have started in the previous minute.
    ["2026-11-26T07:30:59.5+00:00", 61],
    // Times are accepted in any time zone that the database uses.
    ["2026-11-26T13:01:16.123456+05:30", 44],
  ] as const)("a rate limit read at %s resets in %i seconds", ([at, seconds]) => {
    expect(read([1, 0, null, null, ...none], { at }).resetSeconds).toBe(seconds);
  });
});

test("rate limit headers are sent only for existing limits", () => {
  expect(rateLimitHeaders(read([10, 3, null, 250, ...none]))).toEqual({
    "x-ratelimit-limit-requests": "10",
    "x-ratelimit-remaining-requests": "7",
    "x-ratelimit-reset-requests": "44s",
  });
  expect(rateLimitHeaders(read([...none, null, null, 1_000_000_000_000, 924]))).toEqual({
    "x-ratelimit-limit-tokens": "1000000000000",
    "x-ratelimit-remaining-tokens": "999999999076",
    "x-ratelimit-reset-tokens": "44s",
  });
  expect(rateLimitHeaders({})).toEqual({});
});

describe("Rate limit headers of an answer", () => {
  const limits = { minute, counts: [10, 3, 10_000, 1_600, null, null, 50_000, 45_000] };
  const remaining = (reserved_tokens: number | null | undefined, used?: object) =>
    runLimitHeaders({ limits, created_at: at, reserved_tokens }, used)["x-ratelimit-remaining-tokens"];

  test("rate limit headers count the reserved tokens until the usage is known", () => {
    expect(remaining(600)).toBe("5000");
  });

  test("once the usage is known, the header for remaining tokens counts the used tokens instead of the reserved tokens", () => {
    expect(remaining(600, { input_tokens: 13, output_tokens: 12 })).toBe("5575");
    expect(remaining(600, { input_tokens: 5_000, output_tokens: 1_000 })).toBe("0");
    expect(remaining(600, {})).toBe("5600");
  });

  test.for([null, undefined])("rate limit headers ignore the usage if the run's reserved tokens are %s", (reserved) => {
    expect(remaining(reserved, { input_tokens: 13, output_tokens: 12 })).toBe("5000");
  });

  test("used tokens do not change the header for remaining requests", () => {
    const headers = runLimitHeaders({ limits, created_at: at, reserved_tokens: 600 }, { input_tokens: 1 });
    expect(headers["x-ratelimit-remaining-requests"]).toBe("7");
  });
});

describe("Limits of a model", () => {
  const counts = [10, 3, 10_000, 1_600, 20, 19, 50_000, 45_000];
  test.for([
    [[5, 5, null, null], "5", "0", "50000", "5000"],
    [[50, 5, 4_000, 3_999], "20", "1", "4000", "1"],
    [[2, 1, 9_000, 4_000], "20", "1", "50000", "5000"],
    [null, "20", "1", "50000", "5000"],
    [undefined, "20", "1", "50000", "5000"],
  ] as const)("the headers state the tightest limit with the model's %j", ([model, ...expected]) => {
    const limits = { minute, counts, model: model && [...model] };
    const headers = runLimitHeaders({ limits, created_at: at, reserved_tokens: 600 });
    const names = ["limit-requests", "remaining-requests", "limit-tokens", "remaining-tokens"];
    expect(names.map((name) => headers[`x-ratelimit-${name}`])).toEqual(expected);
  });

  test("the model's tokens count the run's usage once it is known", () => {
    const limits = { minute, counts: [null, null, null, null, ...none], model: [null, null, 4_000, 1_600] };
    const headers = runLimitHeaders({ limits, created_at: at, reserved_tokens: 600 }, { input_tokens: 100 });
    expect(headers["x-ratelimit-remaining-tokens"]).toBe("2900");
  });
});

test.for([
  { counts: [null, null, 10_000, 5_001, ...none], reserved_tokens: 100, near: true },
  { counts: [null, null, 10_000, 5_000, ...none], reserved_tokens: 100, near: false },
  { counts: [null, null, 10_000, 5_000, null, null, 8_000, 5_000], reserved_tokens: 100, near: true },
  { counts: [5, 5, null, null, ...none], reserved_tokens: null, near: false },
])("with the counts $counts, isNearTokenLimit returns $near", ({ counts, reserved_tokens, near }) => {
  expect(isNearTokenLimit({ limits: { minute, counts }, created_at: at, reserved_tokens })).toBe(near);
});
