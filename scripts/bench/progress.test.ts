import { expect, test } from "vitest";
import { createProgress } from "./progress.ts";

function start({ isTTY }: { isTTY: boolean }) {
  const clock = { ms: 0 };
  const said: string[] = [];
  const out = { isTTY, columns: 30, write: (text: string) => said.push(text) };
  return { clock, said, progress: createProgress({ steps: 12, now: () => clock.ms }, out) };
}

test("prints a line with the number and start time of each benchmark step", () => {
  const { clock, said, progress } = start({ isTTY: false });
  progress.begin("one");
  clock.ms = 900;
  progress.show("half of it");
  progress.begin("two");
  progress.end();
  expect(said).toEqual(["  0 s   1/12  one\n", "  1 s   2/12  two\n"]);
});

test("on a terminal, each progress line is cut to the terminal's width and replaces the previous line, and the end clears the last line", () => {
  const { said, progress } = start({ isTTY: true });
  progress.begin("a step with a rather long name");
  progress.show("half of it");
  progress.end();
  expect(said).toEqual(["\r\x1b[2K  0 s   1/12  a step with a r", "\r\x1b[2K  0 s   1/12  half of it", "\r\x1b[2K"]);
});

test("does not begin a benchmark step after the run is aborted", () => {
  const stopping = new AbortController();
  const progress = createProgress({ steps: 1, signal: stopping.signal }, { write: () => {} });
  progress.begin("one");
  stopping.abort(new Error("Ctrl-C"));
  expect(() => progress.begin("two")).toThrow("Ctrl-C");
});
