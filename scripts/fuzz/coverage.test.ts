import { expect, test } from "vitest";
import { createCoverage } from "./coverage.ts";
import type { Credential } from "./credentials.ts";

const credential = (name: string, good: boolean): Credential => ({ name, good, headers: () => ({}) });
const [none, garbled, cookie, key] = [
  credential("none", false),
  credential("garbled", false),
  credential("cookie", true),
  credential("key", true),
];
const target = { name: "GET /" };

test("a target that some class of credentials has not asked is a gap, and so is a good credential without success", () => {
  const coverage = createCoverage([target], [none, garbled, cookie, key]);
  expect(coverage.gaps()).toHaveLength(5);
  coverage.note({ target, credential: none, status: 401 });
  coverage.note({ target, credential: garbled, status: 401 });
  coverage.note({ target, credential: cookie, status: 299 });
  coverage.note({ target, credential: key, status: 300 });
  expect(coverage.gaps()).toEqual(["key, a good credential, was answered by no 2xx"]);
  coverage.note({ target, credential: key, status: 200 });
  expect(coverage.gaps()).toEqual([]);
});

test("no answer is asked, and no success", () => {
  const coverage = createCoverage([target], [cookie]);
  coverage.note({ target, credential: cookie, status: undefined });
  expect(coverage.gaps()).toEqual(["cookie, a good credential, was answered by no 2xx"]);
});
