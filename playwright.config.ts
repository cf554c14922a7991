import path from "node:path";
import { defineConfig } from "playwright/test";
import { findChromium } from "./e2e/chromium.ts";
import { readStack } from "./scripts/test/stack.ts";

const ownStack = "bot-challenge.spec.ts";
/** `npm run test:satellites` installs these apps first. */
const freshApps = "satellite-apps.spec.ts";

/**
 * Browser tests against the running stack that GATEHOUSE_STACK names. Traces cost a third of their time: ask for one by
 * `--trace on` where a failure needs it.
 */
export default defineConfig({
  testDir: "e2e",
  testMatch: "*.spec.ts",
  // By stack, since a run empties its directory, and runs against other stacks may be under way.
  outputDir: path.join(
    "test-results/browser",
    path.basename(path.dirname(path.resolve(process.env.GATEHOUSE_STACK ?? "."))),
  ),
  fullyParallel: true,
  forbidOnly: true,
  // They wait for pages, mails and floors of time more than they work.
  workers: 3,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  // Playwright leaves what needs workers of another kind to the end, where one would have nothing to do meanwhile.
  projects: [
    { name: "bot challenge", testMatch: ownStack },
    { name: "browser", testIgnore: [ownStack, freshApps] },
    ...(process.env.SATELLITE_APPS ? [{ name: "satellite apps", testMatch: freshApps }] : []),
  ],
  use: {
    baseURL: readStack().base,
    launchOptions: await findChromium(),
    screenshot: "only-on-failure",
  },
});
