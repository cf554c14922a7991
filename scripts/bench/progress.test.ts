import { expect, test } from "vitest";
import { createProgress, OutOfTime } from "./progress.ts";

function start({ isTTY }: { isTTY: boolean }) {
  const clock = { ms: 0 };
  const said: string[] = [];
  const out = { isTTY, columns: 30, write: (text: string) => said.push(text) };
  return { clock, said, progress: createProgress({ steps: 12, limitMs: 1_000, now: () => clock.ms }, out) };
}

test("each step is a line, with its number and when it began", () => {
  const { clock, said, progress } = start({ isTTY: false });
  progress.begin("one");
  clock.ms = 900;
  progress.show("half of it");
  progress.begin("two");
  progress.end();
  expect(said).toEqual(["  0 s   1/12  one\n", "  1 s   2/12  two\n"]);
});

test("on a terminal they share one line, that is never broken and goes away", () => {
  const { said, progress } = start({ isTTY: true });
  progress.begin("a step with a rather long name");
  progress.show("half of it");
  progress.end();
  expect(said).toEqual(["\r\x1b[2K  0 s   1/12  a step with a r", "\r\x1b[2K  0 s   1/12  half of it", "\r\x1b[2K"]);
});

test("no step begins once the time is over, but for those that have to be done", () => {
  const { clock, progress } = start({ isTTY: false });
  clock.ms = 1_000;
  expect(progress.leftMs()).toBe(0);
  progress.begin("just in time");
  clock.ms = 1_001;
  expect(() => progress.begin("too late")).toThrow(OutOfTime);
  progress.begin("the books", { always: true });
});

test("no step begins once somebody has asked to stop", () => {
  const stopping = new AbortController();
  const progress = createProgress({ steps: 1, limitMs: 1_000, signal: stopping.signal }, { write: () => {} });
  progress.begin("one");
  stopping.abort(new Error("Ctrl-C"));
  expect(() => progress.begin("two", { always: true })).toThrow("Ctrl-C");
});
