import { data } from "@remix-run/server-runtime";
import { expect, test } from "vitest";
import { isLate, later, settled } from "./late-data.ts";

test("what is still being read is told from what is there, and waited for", async () => {
  const found = { user: "ada", runs: later(Promise.resolve(7)) };
  expect(isLate(found)).toBe(true);
  expect(await settled(found)).toEqual({ user: "ada", runs: 7 });
});

test.each([{ user: "ada" }, data({ a: 1 }, { status: 400 }), new Response("text"), null, undefined, "text"])(
  "%s is there as it is",
  async (found) => {
    expect(isLate(found)).toBe(false);
    expect(await settled(found)).toBe(found);
  },
);

test("what fails later fails whoever waits for it, and nobody else", async () => {
  const found = { runs: later(Promise.reject(new Error("gone"))) };
  // An unhandled rejection would end the run here.
  await new Promise((resolve) => setImmediate(resolve));
  await expect(settled(found)).rejects.toThrow("gone");
});
