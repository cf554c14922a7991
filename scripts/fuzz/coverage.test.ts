import { expect, test } from "vitest";
import { createCoverage } from "./coverage.ts";

const none = { name: "none", good: false };
const cookie = { name: "cookie", good: true };
const key = { name: "key", good: true };
const home = { name: "GET /" };
const login = { name: "POST /login" };
const durationMs = 1;
const isFor = () => true;

test("reports each route and credential pair that was not requested, and each valid credential without a success", () => {
  const coverage = createCoverage([home, login], { credentials: [none, cookie], isFor });
  expect(coverage.pairs()).toEqual({ asked: 0, all: 4 });
  expect(coverage.gaps()).toHaveLength(5);
  coverage.note({ target: home, credential: none, status: 401, durationMs });
  coverage.note({ target: home, credential: none, status: 401, durationMs });
  coverage.note({ target: login, credential: none, status: 401, durationMs });
  coverage.note({ target: home, credential: cookie, status: 299, durationMs });
  expect(coverage.pairs()).toEqual({ asked: 3, all: 4 });
  expect(coverage.gaps()).toEqual(["POST /login by cookie was not asked in the time"]);
  coverage.note({ target: login, credential: cookie, status: 400, durationMs });
  expect(coverage.gaps()).toEqual([]);
});

test("the fuzzer does not count a response other than 2xx as a success", () => {
  const coverage = createCoverage([home], { credentials: [key], isFor });
  for (const status of [199, 300]) coverage.note({ target: home, credential: key, status, durationMs });
  expect(coverage.served(key)).toBe(false);
  expect(coverage.gaps()).toEqual(["key, a good credential, was answered by no 2xx where it is called for"]);
  coverage.note({ target: home, credential: key, status: 200, durationMs });
  expect(coverage.served(key)).toBe(true);
  expect(coverage.gaps()).toEqual([]);
});

test("does not count a 2xx response as a success if invalid credentials also get 2xx, or if the target requires other credentials", () => {
  const isForKey = (target: typeof home, { name }: typeof key) => target !== login || name === "key";
  const coverage = createCoverage([home, login], { credentials: [none, cookie, key], isFor: isForKey });
  coverage.note({ target: home, credential: none, status: 200, durationMs });
  coverage.note({ target: login, credential: none, status: 401, durationMs });
  for (const target of [home, login]) coverage.note({ target, credential: cookie, status: 200, durationMs });
  expect(coverage.served(cookie)).toBe(false);
  coverage.note({ target: home, credential: key, status: 200, durationMs });
  expect(coverage.served(key)).toBe(false);
  coverage.note({ target: login, credential: key, status: 200, durationMs });
  expect([coverage.served(key), coverage.served(none)]).toEqual([true, false]);
});

test("the fuzzer counts a request without a response as sent but not as a success", () => {
  const coverage = createCoverage([home], { credentials: [cookie], isFor });
  coverage.note({ target: home, credential: cookie, status: undefined, durationMs });
  expect(coverage.gaps()).toEqual(["cookie, a good credential, was answered by no 2xx where it is called for"]);
});

test("the fuzzer keeps the slowest response of each target", () => {
  const coverage = createCoverage([home, login], { credentials: [none, cookie], isFor });
  for (const [target, credential, took] of [
    [home, none, 5],
    [home, cookie, 9],
    [home, none, 7],
    [login, none, 8],
  ] as const) {
    coverage.note({ target, credential, status: 200, durationMs: took });
  }
  expect(coverage.slowest(1)).toEqual([{ name: "GET / by cookie", durationMs: 9 }]);
  expect(coverage.slowest(5).map(({ name }) => name)).toEqual(["GET / by cookie", "POST /login by none"]);
});
