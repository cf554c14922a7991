import path from "node:path";
import { defineConfig, type Project } from "playwright/test";
import { findChromium } from "./e2e/chromium.ts";
import { chromiumOnlyFiles, chromiumOnlyTag, findFirefox } from "./e2e/firefox.ts";
import { readStack } from "./scripts/test/stack.ts";

const ownStack = "bot-challenge.spec.ts";
/** `npm test -- satellites` installs these apps first. */
const freshApps = "satellite-apps.spec.ts";

/** By default, Playwright would leave tests that need a different kind of worker to the end, when the other workers
 * are idle. A separate project runs them first.
 */
const inChromium: Project[] = [
  { name: "bot challenge", testMatch: ownStack },
  { name: "browser", testIgnore: [ownStack, freshApps] },
  ...(process.env.SATELLITE_APPS ? [{ name: "satellite apps", testMatch: freshApps }] : []),
];

/** `npm test -- --all` also runs the tests in Firefox. */
function inFirefox(): Project[] {
  const launchOptions = findFirefox();
  if (!launchOptions) throw new Error("There is no Firefox: install one, or set FIREFOX_BIN.");
  return [
    {
      name: "firefox",
      testIgnore: [ownStack, freshApps, ...chromiumOnlyFiles],
      grepInvert: chromiumOnlyTag,
      use: { browserName: "firefox", launchOptions },
    },
  ];
}

/**
 * Runs the browser tests against the stack that GATEHOUSE_STACK names. Traces are off because they take a third of the
 * run's time; turn them on with `--trace on` to investigate a failure.
 */
export default defineConfig({
  testDir: "e2e",
  testMatch: "*.spec.ts",
  // One directory per stack, because a run empties its directory while runs against other stacks may be in progress.
  outputDir: path.join(
    "test-results/browser",
    path.basename(path.dirname(path.resolve(process.env.GATEHOUSE_STACK ?? "."))),
  ),
  fullyParallel: true,
  forbidOnly: true,
  // The tests spend most of their time waiting for pages, emails and minimum response times.
  workers: 3,
  timeout: 120_000,
  expect: { timeout: 20_000 },
  reporter: [["list"]],
  projects: process.env.TEST_BROWSER === "firefox" ? inFirefox() : inChromium,
  use: {
    baseURL: readStack().base,
    launchOptions: await findChromium(),
    screenshot: "only-on-failure",
  },
});
