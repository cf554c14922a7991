import { expect, test } from "vitest";
import { createJournal, NoAnswer, watch } from "./journal.ts";

const described = { actor: "browser 1", what: "GET /", target: "web" } as const;
const seen = (status: number) => ({ status });

test("records each answer's status, and counts 5xx answers that were not provoked", async () => {
  const journal = createJournal();
  await watch(journal, described, { call: async () => 200, seen });
  await watch(journal, described, { call: async () => 503, seen });
  await watch(journal, { ...described, asked: true }, { call: async () => 502, seen });
  expect(journal.answers.map(({ status, asked }) => [status, asked])).toEqual([
    [200, false],
    [503, false],
    [502, true],
  ]);
  expect(Object.fromEntries(journal.counts)).toEqual({ calls: 3, "5xx": 1 });
});

test("records the innermost network error code if no answer arrives", async () => {
  const journal = createJournal();
  const cause = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  const call = () => Promise.reject(new TypeError("fetch failed", { cause }));
  await expect(watch(journal, described, { call, seen })).rejects.toThrow(NoAnswer);
  expect(journal.answers).toMatchObject([{ status: null, code: "ECONNREFUSED", left: false }]);
  expect(journal.counts.get("unanswered")).toBe(1);
});

test("does not count a call as unanswered if its caller disconnected", async () => {
  const journal = createJournal();
  const call = () => Promise.reject(new DOMException("left", "AbortError"));
  await expect(watch(journal, described, { call, seen, left: () => true })).rejects.toThrow(NoAnswer);
  expect(journal.answers).toMatchObject([{ status: null, left: true }]);
  expect(journal.counts.has("unanswered")).toBe(false);
});
