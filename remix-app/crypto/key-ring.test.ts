import { expect, test } from "vitest";
import { openKeyRing } from "./derived-key.ts";

const [first, second] = ["a".repeat(32), "b".repeat(32)];

test("derives the same key and id from the same secret and purpose", async () => {
  const [ring, again] = [await openKeyRing([first], "sessions"), await openKeyRing([first], "sessions")];
  expect(again.current).toEqual(ring.current);
  expect(ring.current.key).toHaveLength(32);
});

test("derives different keys and ids for different purposes or secrets", async () => {
  const rings = await Promise.all([
    openKeyRing([first], "sessions"),
    openKeyRing([first], "proofs"),
    openKeyRing([second], "sessions"),
  ]);
  expect(new Set(rings.map(({ current }) => Buffer.from(current.key).toString("hex"))).size).toBe(3);
  expect(new Set(rings.map(({ current }) => current.id)).size).toBe(3);
});

test("a key's id reveals nothing about the key", async () => {
  const { current } = await openKeyRing([first], "sessions");
  expect(Buffer.from(current.key).toString("base64url")).not.toContain(current.id);
});

test("finds the previous key after a rotation, but never an unknown key", async () => {
  const before = await openKeyRing([first], "sessions");
  const after = await openKeyRing([second, first], "sessions");
  expect(after.current.id).not.toBe(before.current.id);
  expect(after.find(before.current.id)).toEqual(before.current.key);
  expect([before.previous, after.previous]).toEqual([[], [before.current]]);
  expect(before.find(after.current.id)).toBeUndefined();
});
