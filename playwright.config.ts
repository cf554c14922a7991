import { defineConfig } from "playwright/test";
import { findChromium } from "./e2e/chromium.ts";
import { readStack } from "./scripts/test/stack.ts";

/** Browser tests against the running stack that GATEHOUSE_STACK names. */
export default defineConfig({
  testDir: "e2e",
  testMatch: "*.spec.ts",
  outputDir: "test-results/browser",
  fullyParallel: true,
  forbidOnly: true,
  workers: 2,
  timeout: 60_000,
  expect: { timeout: 7_000 },
  reporter: [["list"]],
  use: {
    baseURL: readStack().base,
    launchOptions: await findChromium(),
    screenshot: "only-on-failure",
    trace: "retain-on-failure",
  },
});
