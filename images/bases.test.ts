import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { containerfile, pinBases, readBases } from "./bases.ts";

const text = readFileSync(containerfile, "utf8");
const digest = (digit: string) => `sha256:${digit.repeat(64)}`;

test("the Containerfile names each base image once, with a tag", () => {
  const bases = readBases(text);
  expect(bases.map(({ argument }) => argument)).toEqual(["BUILD_BASE", "BASE"]);
  for (const { reference } of bases) expect(reference).toMatch(/^[\w.-]+\/[\w./-]+:[\w.-]+$/);
  const stages = [...text.matchAll(/^FROM (\S+)(?: AS (\S+))?$/gm)].map(([, from = "", name = ""]) => ({ from, name }));
  const named = new Set(stages.map(({ name }) => name));
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the Containerfile's own syntax.
  const known = new Set(["${BUILD_BASE}", "${BASE}", ...named]);
  expect(stages.filter(({ from }) => !known.has(from))).toEqual([]);
});

test("pins base images to digests, and replaces earlier digests", () => {
  const [build, base] = readBases(text).map(({ reference }) => reference);
  const pinned = pinBases(text, new Map([[build ?? "", digest("a")]]));
  expect(readBases(pinned).map((each) => each.digest)).toEqual([digest("a"), undefined]);
  const again = pinBases(pinned, new Map([build, base].map((reference) => [reference ?? "", digest("b")])));
  expect(readBases(again).map((each) => each.digest)).toEqual([digest("b"), digest("b")]);
  expect(again.replaceAll(`@${digest("b")}`, "")).toBe(text.replaceAll(/@sha256:[0-9a-f]{64}/g, ""));
});
