import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { findFirefox } from "./firefox.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "firefox-"));
  vi.stubEnv("FIREFOX_BIN", "");
  vi.stubEnv("PATH", directory);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true });
});

test("finds the Firefox in PATH, prefers the one that FIREFOX_BIN names, and returns null without any", async () => {
  expect(findFirefox()).toBeNull();
  await writeFile(path.join(directory, "firefox-esr"), "");
  expect(findFirefox()?.env?.FIREFOX_BIN).toBe(path.join(directory, "firefox-esr"));
  const named = path.join(directory, "mine");
  await writeFile(named, "");
  vi.stubEnv("FIREFOX_BIN", named);
  expect(findFirefox()?.env?.FIREFOX_BIN).toBe(named);
  vi.stubEnv("FIREFOX_BIN", path.join(directory, "absent"));
  expect(findFirefox).toThrow(/absent, which does not exist/);
});
