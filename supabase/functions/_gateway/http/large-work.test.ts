import { expect, test } from "vitest";
import { runInTurn } from "./large-work.ts";

test("large work runs in the order of its calls, never twice in one turn of the event loop, and also after a failure", async () => {
  const done: string[] = [];
  const work = (name: string) => runInTurn(() => done.push(name));
  const failing = runInTurn(() => {
    done.push("failing");
    throw new Error("not JSON");
  });
  const all = [expect(failing).rejects.toThrow("not JSON"), work("second"), work("third")];
  await Promise.resolve();
  await Promise.resolve();
  expect(done.length).toBeLessThanOrEqual(1);
  await Promise.all(all);
  expect(done).toEqual(["failing", "second", "third"]);
});
