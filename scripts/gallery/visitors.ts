import { Secret, TOTP } from "otpauth";
import type { Browser, BrowserContext } from "playwright";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import type { Stack } from "../test/stack.ts";
import type { Visitor } from "./states.ts";

/** A browser for each visitor, signed in as far as it gets. */
export async function openVisitors(browser: Browser, stack: Stack): Promise<Record<Visitor, BrowserContext>> {
  return {
    nobody: await open(browser, stack),
    user: await open(browser, stack, "user"),
    // First, since a code ends the account's sessions that have proved none.
    admin: await open(browser, stack, "admin", { code: true }),
    owing: await open(browser, stack, "admin"),
  };
}

async function open(
  browser: Browser,
  { base, users }: Stack,
  role?: "user" | "admin",
  { code = false } = {},
): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL: base, extraHTTPHeaders: { "X-Forwarded-For": newAddress() } });
  const person = users.find((user) => user.role === role);
  if (!person) return context;
  const page = await context.newPage();
  await page.goto("/login");
  await page.getByLabel("Email").fill(person.email);
  await page.getByLabel("Password").fill(person.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL((url) => url.pathname !== "/login");
  if (code && person.totpSecret) {
    const totp = new TOTP({ secret: Secret.fromBase32(person.totpSecret) });
    await page.getByLabel(/code/i).first().fill(totp.generate());
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname !== "/mfa");
  }
  await page.close();
  return context;
}
