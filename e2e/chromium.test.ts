import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { findChromium } from "./chromium.ts";

let directory: string;

async function fakeBrowser(name: string, exitCode: number): Promise<string> {
  const file = path.join(directory, name);
  await writeFile(file, `#!/bin/sh\nexit ${exitCode}\n`);
  await chmod(file, 0o755);
  return file;
}

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "browsers-"));
  vi.stubEnv("PLAYWRIGHT_CHROMIUM_PATH", "");
  vi.stubEnv("PATH", `${directory}:/bin:/usr/bin`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true });
});

test("prefers the browser named by PLAYWRIGHT_CHROMIUM_PATH, and throws an error if that browser does not run", async () => {
  await fakeBrowser("chromium", 0);
  const named = await fakeBrowser("mine", 0);
  vi.stubEnv("PLAYWRIGHT_CHROMIUM_PATH", named);
  expect((await findChromium()).executablePath).toBe(named);
  vi.stubEnv("PLAYWRIGHT_CHROMIUM_PATH", path.join(directory, "absent"));
  await expect(findChromium()).rejects.toThrow(/^PLAYWRIGHT_CHROMIUM_PATH is set to .*absent, which does not run/);
});

test("uses the system's browser if it runs, and skips a stub that only explains how to install a browser", async () => {
  await fakeBrowser("chromium", 1);
  const chrome = await fakeBrowser("google-chrome", 0);
  expect((await findChromium()).executablePath).toBe(chrome);
});
