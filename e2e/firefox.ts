import { existsSync } from "node:fs";
import path from "node:path";
import type { LaunchOptions } from "playwright";

/** The tags of tests that run only in Chromium. Playwright drives a released Firefox through WebDriver BiDi. */
export const chromiumOnly = {
  /** Only Chromium prefetches pages by speculation rules. */
  prefetch: { tag: "@chromium-prefetch" },
  /** Playwright cannot turn off scripts in Firefox. */
  noScript: { tag: "@chromium-no-script" },
  /** Playwright does not get the bodies of requests from Firefox. */
  requestBody: { tag: "@chromium-request-body" },
  /** Playwright cannot emulate forced colors in Firefox. */
  forcedColors: { tag: "@chromium-forced-colors" },
};

export const chromiumOnlyTag = /@chromium-/;

/** The files of tests that run only in Chromium. */
export const chromiumOnlyFiles = [
  // Virtual authenticators are a command of Chromium's own protocol.
  "passkeys.spec.ts",
  "passkey-identity.spec.ts",
  // Playwright does not get the bodies of requests from Firefox, which these tests send on.
  "lost-responses.spec.ts",
];

const systemNames = ["firefox", "firefox-esr"];

/**
 * Finds an installed Firefox: the one that `FIREFOX_BIN` names, or one in `PATH`.
 * @returns how Playwright starts it, or null if there is none
 * @throws Error if FIREFOX_BIN names a file that does not exist
 */
export function findFirefox(): LaunchOptions | null {
  const named = process.env.FIREFOX_BIN;
  if (named && !existsSync(named)) throw new Error(`FIREFOX_BIN is set to ${named}, which does not exist.`);
  const directories = (process.env.PATH ?? "").split(path.delimiter).filter((directory) => directory !== "");
  const candidates = directories.flatMap((directory) => systemNames.map((name) => path.join(directory, name)));
  const found = named || candidates.find((file) => existsSync(file));
  if (!found) return null;
  return {
    channel: "moz-firefox",
    executablePath: path.resolve("e2e/firefox-without-media.ts"),
    env: { ...process.env, FIREFOX_BIN: found },
    // The panel would take the focus from the page.
    firefoxUserPrefs: { "browser.download.alwaysOpenPanel": false },
  };
}
