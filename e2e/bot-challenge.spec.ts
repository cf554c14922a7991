import { createClient } from "@supabase/supabase-js";
import type { Page } from "playwright/test";
import { readStackFile, type Stack } from "../scripts/test/stack.ts";
import { startStack } from "../scripts/test/start-stack.ts";
import {
  test as base,
  expect,
  expectFitsSmallScreens,
  expectWellMade,
  makePerson,
  type Person,
  signIn,
} from "./test.ts";

/** Uses a stack whose sign-in requires a bot challenge. */
const test = base.extend<{ person: Person }, { challenged: Stack }>({
  challenged: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
    async ({}, use) => {
      const { file, stop } = await startStack({ LOCAL_BOT_CHALLENGE: "on", IDENTITY_BIN: "" });
      await use(readStackFile(file));
      await stop();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  baseURL: ({ challenged }, use) => use(challenged.base),
  person: async ({ challenged }, use) => {
    const { url, secretKey } = challenged.supabase;
    const { admin } = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).auth;
    const person = makePerson();
    const { error } = await admin.createUser({ ...person, email_confirm: true });
    if (error) throw error;
    await use(person);
  },
});
// Serial, because the tests share one stack.
test.describe.configure({ mode: "default" });

const tokenField = (page: Page) => page.locator("input[name=botChallengeToken]");
const status = (page: Page) => page.locator("#bot-challenge-status");

async function expectPassed(page: Page): Promise<void> {
  await expect(tokenField(page)).toHaveValue(/^local\./);
  await expect(status(page)).toBeEmpty();
}

const unregistered = "The check that you’re human isn’t set up for";

test("a passed bot challenge allows the sign-in, and each response comes with a fresh challenge", async ({
  page,
  person,
}) => {
  await page.goto("/login");
  await expectPassed(page);
  await expectWellMade(page);
  const first = await tokenField(page).inputValue();
  await signIn(page, { ...person, password: "not the password" });
  await expect(page.getByRole("alert")).toContainText("don’t match an account");
  await expectPassed(page);
  expect(await tokenField(page).inputValue()).not.toBe(first);
  await page.getByLabel("Password").fill(person.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
});

test("sign-up, resending its email, and resetting a password each need a passed bot challenge", async ({
  page,
  person,
}) => {
  await page.goto("/signup");
  await page.getByLabel("Email").fill(`new-${person.email}`);
  await page.getByLabel("Password").fill(person.password);
  await expectPassed(page);
  await page.getByRole("button", { name: "Create account" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  await expectPassed(page);
  await page.getByRole("button", { name: "Resend email" }).click();
  await expect(page.getByText("If this address isn’t confirmed yet")).toBeVisible();
  await page.goto("/forgot-password");
  await expectPassed(page);
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("button", { name: "Send reset link" }).click();
  await expect(page.getByText("If there’s an account for this address")).toBeVisible();
});

test("a sign-in code can be requested and resent after the bot challenge passes", async ({ page, person }) => {
  await page.goto("/login");
  await page.getByLabel("Email").fill(person.email);
  // The form waits until it has a challenge token, then submits to the target of the clicked button.
  await page.getByRole("button", { name: "Email me a code" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  await expectPassed(page);
  await page.getByRole("button", { name: "Resend code" }).click();
  await expect(page.getByText("If you got a code in the last 3 minutes, enter that one.")).toBeVisible();
  await page.getByLabel("Code").fill("0000000000");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("That code is incorrect");
});

test("a form submitted before the bot challenge has passed says that it is waiting, then submits itself", async ({
  page,
  person,
}) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  await page.route("**/challenge", async (route) => {
    await held;
    await route.continue();
  });
  await signIn(page, person);
  await expect(status(page)).toHaveText("Checking that you’re human…");
  await expect(page).toHaveURL(/\/login$/);
  release();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
});

test("a button that needs a bot challenge token is disabled until the token arrives, and says why", async ({
  page,
}) => {
  await page.addInitScript(() => {
    document.addEventListener("readystatechange", () => {
      if (document.readyState !== "interactive") return;
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Needs it" });
      button.dataset.needsBotChallenge = "";
      button.addEventListener("click", () => button.append("!"));
      document.querySelector("main")?.append(button);
      document.addEventListener("bot-challenge:change", (event) => {
        const { token, reason } = (event as CustomEvent).detail;
        button.title = token ?? reason;
      });
    });
  });
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  await page.route("**/challenge", async (route) => {
    await held;
    await route.continue();
  });
  await page.goto("/login");
  const button = page.getByRole("button", { name: "Needs it" });
  await expect(button).toHaveAttribute("aria-disabled", "true");
  await expect(button).toHaveAccessibleDescription("Checking that you’re human…");
  await button.click({ force: true });
  await expect(button).toHaveText("Needs it");
  release();
  await expect(button).toHaveAttribute("aria-disabled", "false");
  await button.click();
  await expect(button).toHaveText("Needs it!");

  const used = await tokenField(page).inputValue();
  await expect(button).toHaveAttribute("title", used);
  await page.evaluate(() => document.dispatchEvent(new Event("bot-challenge:used")));
  await expect(tokenField(page)).not.toHaveValue(used);
  await expectPassed(page);
});

test("a forged or used bot challenge token is rejected, and the typed values stay", async ({ page, person }) => {
  await page.goto("/login");
  await expectPassed(page);
  const token = await tokenField(page).inputValue();
  await tokenField(page).evaluate((field: HTMLInputElement) => {
    field.value = "local.made-up";
  });
  await page.getByLabel("Email").fill(person.email);
  await page.getByLabel("Password").fill(person.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("failed or has expired. Complete it again.");
  await expect(page.getByLabel("Email")).toHaveValue(person.email);
  await expect(page.getByLabel("Password")).toHaveValue("");

  const send = (password: string) =>
    page.request.post("/login", {
      form: { email: person.email, password, botChallengeToken: token },
      headers: { "sec-fetch-site": "same-origin" },
      maxRedirects: 0,
    });
  expect((await send("not the password")).status()).toBe(400);
  expect((await send(person.password)).status()).toBe(403);
});

test.describe("the bot challenge without JavaScript", () => {
  test.use({ javaScriptEnabled: false });

  test("without JavaScript, the bot challenge says that it needs JavaScript, and the form cannot be submitted", async ({
    page,
    person,
  }) => {
    await page.goto("/login");
    await expect(page.getByText("This page needs JavaScript to verify that you’re human.")).toBeVisible();
    await expectFitsSmallScreens(page);
    await page.getByLabel("Email").fill(person.email);
    await page.getByLabel("Password").fill(person.password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await expect(page.getByRole("alert")).toContainText("We couldn’t verify that you’re human.");
    await expect(page.getByLabel("Email")).toHaveValue(person.email);
  });
});

test("bot challenge error 110200 is explained and offers no retry", async ({ page, baseURL }) => {
  const elsewhere = new URL("/login", baseURL);
  elsewhere.hostname = "127.0.0.1";
  await page.setViewportSize({ width: 320, height: 640 });
  await page.goto(elsewhere.href);
  await expect(status(page)).toContainText(`${unregistered} 127.0.0.1 (error 110200)`);
  await expect(page.getByRole("button", { name: "Try again" })).toBeHidden();
  await expect(tokenField(page)).toHaveValue("");
  await expectFitsSmallScreens(page);
});

test("without a bot challenge token, Forgot password still opens its page with the typed email", async ({ page }) => {
  await page.route("**/turnstile/v0/api.js*", (route) => route.abort());
  await page.goto("/login");
  await page.getByLabel("Email").fill("ada@example.com");
  await page.getByRole("button", { name: "Forgot password?" }).click();
  await expect(page.getByRole("heading", { name: "Reset your password" })).toBeVisible();
  await expect(page.getByLabel("Email")).toHaveValue("ada@example.com");
});

test("if the bot challenge widget cannot load, the page names possible blockers and offers a retry", async ({
  page,
}) => {
  await page.route("**/turnstile/v0/api.js*", (route) => route.abort());
  await page.goto("/login");
  await expect(status(page)).toContainText(
    "We couldn’t load the check that you’re human. If your browser or network blocks 127.0.0.1:",
  );
  await page.unroute("**/turnstile/v0/api.js*");
  await page.getByRole("button", { name: "Try again" }).click();
  await expectPassed(page);
});

test("after bot challenge error 300030, submitting the form focuses the retry button, and a retry completes the sign-in", async ({
  page,
  person,
}) => {
  await page.route("**/challenge", (route) => route.abort());
  await signIn(page, person);
  await expect(status(page)).toContainText("(300030)");
  const retry = page.getByRole("button", { name: "Try again" });
  await expect(retry).toBeVisible();
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(retry).toBeFocused();
  await page.unroute("**/challenge");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
});
