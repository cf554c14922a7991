import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createBag } from "./bag.ts";

test("a bag holds one entry for each time that an item was added, until that entry is removed", () => {
  const bag = createBag<string>();
  const [first, second, third] = [bag.add("a"), bag.add("b"), bag.add("a")];
  expect(bag.items().sort()).toEqual(["a", "a", "b"]);
  bag.remove(first);
  expect(bag.items().sort()).toEqual(["a", "b"]);
  bag.remove(third);
  bag.remove(second);
  expect(bag.size).toBe(0);
});

test("removing an item from a bag twice removes no other item", () => {
  const bag = createBag<number>();
  const entries = [1, 2, 3].map((item) => bag.add(item));
  const [first] = entries;
  if (first) bag.remove(first);
  if (first) bag.remove(first);
  expect(bag.items().sort()).toEqual([2, 3]);
});

test("a bag contains the right items after any sequence of additions and removals", () => {
  const bag = createBag<number>();
  const there = new Map<number, ReturnType<typeof bag.add>>();
  for (let turn = 0; turn < 2_000; turn += 1) {
    const gone = [...there.keys()][(turn * 7) % (there.size + 1)];
    const entry = gone === undefined ? undefined : there.get(gone);
    if (turn % 3 === 0 && gone !== undefined && entry) {
      bag.remove(entry);
      there.delete(gone);
    } else there.set(turn, bag.add(turn));
  }
  expect(bag.size).toBe(there.size);
  expect(new Set(bag.items())).toEqual(new Set(there.keys()));
});

test("a removed item can be freed without a full garbage collection", async () => {
  const file = path.join(import.meta.dirname, "bag.ts");
  // Each item takes about 8 KB, and at most four exist at a time. Items that survive young-generation collections move
  // to the old space.
  const program = `
    const { createBag } = await import(${JSON.stringify(file)});
    const { getHeapSpaceStatistics } = await import("node:v8");
    const oldSpace = () => getHeapSpaceStatistics().find((space) => space.space_name === "old_space").space_used_size;
    const bag = createBag();
    bag.remove(bag.add({}));
    gc();
    gc();
    const before = oldSpace();
    const there = [];
    for (let turn = 0; turn < 20_000; turn += 1) {
      there.push(bag.add(new Array(1_000).fill(turn)));
      if (there.length > 4) bag.remove(there.shift());
    }
    console.log(oldSpace() - before);
  `;
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...["--expose-gc", "--incremental-marking-hard-trigger=0", "--input-type=module", "--eval", program],
  ]);
  expect(Number(stdout)).toBeLessThan(4_000_000);
});
