import type { BrowserContext } from "playwright/test";
import { type ConsoleAdmin, createConsoleAdmin } from "../scripts/test/console-admin.ts";
import { readStack } from "../scripts/test/stack.ts";

/** Signs a new admin in to the console in a separate browser and copies its cookies into `context`. */
export async function enterConsole(context: BrowserContext): Promise<ConsoleAdmin> {
  const admin = await createConsoleAdmin();
  const pairs = admin.browser.cookie().split("; ");
  await context.addCookies(
    pairs.map((pair) => ({
      name: pair.slice(0, pair.indexOf("=")),
      value: pair.slice(pair.indexOf("=") + 1),
      url: readStack().base,
    })),
  );
  return admin;
}
