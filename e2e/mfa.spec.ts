import { readFile } from "node:fs/promises";
import type { BrowserContext, Page } from "playwright/test";
import { type AuthenticatorApp, codeOf, wrongCodesOf } from "../remix-app/testing/authenticator-app.ts";
import { insertAuthenticators, query, requireMfa, signedInLongAgo } from "../scripts/test/people.ts";
import { confirmationLink } from "./mailbox.ts";
import { expect, expectAccessible, expectFitsSmallScreens, type Person, signIn, test } from "./test.ts";

const staleSeconds = 610;

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1 });

const apps = (page: Page) =>
  page.locator("section", { has: page.getByRole("heading", { name: "Authenticator apps" }) });

async function enterCode(page: Page, code: string): Promise<void> {
  await page.getByLabel("6-digit code").fill(code);
  await page.getByRole("button", { name: /^(Verify|Verify and add|Confirm)$/ }).click();
}

/** Enrolls an authenticator app with the key on the page, and continues to the recovery codes. */
async function enrollOnPage(page: Page, { name = "" } = {}) {
  if (name) await page.getByLabel("Name (optional)").fill(name);
  await page.getByRole("button", { name: "Set up app" }).click();
  await expect(page.getByRole("img", { name: "QR code for your authenticator app" })).toBeVisible();
  const secret = ((await page.getByText(/^([A-Z2-7]{4} ?)+$/).textContent()) ?? "").replaceAll(" ", "");
  const used = codeOf({ secret });
  await enterCode(page, used);
  return { secret, used };
}

async function enroll(person: Person, ...names: [string, ...string[]]) {
  const [first, ...others] = await insertAuthenticators({ id: await idOf(person) }, names);
  if (!first) throw new Error("no app");
  return [first, ...others] as const;
}

/** Replaces this browser's cookies with the cookies of a browser that signed in long ago. */
async function comeBackLater(
  context: BrowserContext,
  { person, app, url }: { person: Person; app?: AuthenticatorApp; url: string },
): Promise<void> {
  const prove = app && { factorId: app.factorId, code: codeOf(app) };
  const earlier = await signedInLongAgo(person, { secondsAgo: staleSeconds, ...(prove ? { prove } : {}) });
  const cookies = earlier.cookie().split("; ");
  await context.addCookies(
    cookies.map((pair) => ({ name: pair.slice(0, pair.indexOf("=")), value: pair.slice(pair.indexOf("=") + 1), url })),
  );
}

const idOf = async ({ email }: Person) => {
  const [row] = await query<{ id: string }>("select id from auth.users where email = $1", [email]);
  return row?.id ?? "";
};

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });
    const expectWellMade = async (page: Page) => {
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
    };

    test("a person can add an authenticator app, and the next sign-in requires its code", async ({ page, member }) => {
      await signIn(page, member, { at: "/login?returnUrl=%2Fsettings%2Fsecurity" });
      await page.getByRole("link", { name: "Add app" }).click();
      await expect(heading(page, "Add an authenticator app")).toBeVisible();
      await expectWellMade(page);
      const app = await enrollOnPage(page, { name: "Work phone" });
      await expect(heading(page, "Save your recovery codes")).toBeVisible();
      await expectWellMade(page);

      const codes = await page.getByRole("list", { name: "Recovery codes" }).getByRole("listitem").allTextContents();
      expect(codes).toHaveLength(10);
      const downloading = page.waitForEvent("download");
      await page.getByRole("link", { name: "Download" }).click();
      const file = await downloading;
      expect(file.suggestedFilename()).toBe("gatehouse-recovery-codes.txt");
      const text = await readFile(await file.path(), "utf8");
      for (const code of [...codes, member.email]) expect(text).toContain(code);

      await page.getByRole("link", { name: "I’ve saved them" }).click();
      await expect(page).toHaveURL("/settings/security");
      await expect(apps(page).getByText("Work phone")).toBeVisible();
      await expect(page.getByText("10 codes left")).toBeVisible();
      await expectFitsSmallScreens(page);

      await page.context().clearCookies();
      await page.goto("/workspaces?sort=name");
      await page.getByLabel("Email").fill(member.email);
      await page.getByLabel("Password").fill(member.password);
      await page.getByRole("button", { name: "Sign in", exact: true }).click();
      await expect(heading(page, "Enter your code")).toBeVisible();
      await expectWellMade(page);

      const [wrong = ""] = wrongCodesOf(app);
      await enterCode(page, wrong);
      const summary = page.getByRole("alert");
      await expect(summary).toContainText("That code is incorrect");
      await expect(summary).toBeFocused();
      await expect(page.getByLabel("6-digit code")).toHaveValue("");
      await expect(page.getByLabel("6-digit code")).toHaveAccessibleDescription(/That code is incorrect/);
      await expectWellMade(page);
      await enterCode(page, app.used);
      await expect(summary).toContainText("That code was already used");
      await enterCode(page, codeOf(app, 1).replace(/^.../, "$& "));
      await expect(page).toHaveURL("/workspaces?sort=name");
    });

    test("a recovery code replaces a lost authenticator app, and the person adds a new one", async ({
      page,
      member,
    }) => {
      const [app] = await enroll(member, "Lost phone");
      await signIn(page, member);
      await enterCode(page, codeOf(app));
      await page.goto("/mfa/recovery-codes");
      await expect(heading(page, "Create new recovery codes")).toBeVisible();
      await expectWellMade(page);
      await page.getByRole("button", { name: "Create 10 codes" }).click();
      const [code = ""] = await page
        .getByRole("list", { name: "Recovery codes" })
        .getByRole("listitem")
        .allTextContents();
      await page.context().clearCookies();

      await signIn(page, member, { at: "/login?returnUrl=%2Fworkspaces" });
      await page.getByText("Try another way").click();
      await expect(page.getByText("Can’t use any of these? Ask your administrator")).toBeVisible();
      await page.getByRole("link", { name: /^Use a recovery code/ }).click();
      await expect(heading(page, "Use a recovery code")).toBeVisible();
      await expectWellMade(page);
      await page.getByLabel("Recovery code").fill("7KQ2-M9XA-04TC-HW5E");
      await page.getByRole("button", { name: "Remove authenticator apps" }).click();
      await expect(page.getByRole("alert")).toContainText("That code is incorrect or was already used");
      await page.getByLabel("Recovery code").fill(code.toLowerCase());
      await page.getByRole("button", { name: "Remove authenticator apps" }).click();
      await expect(page.getByRole("status")).toContainText("Your authenticator apps were removed");
      await expectWellMade(page);
      await enrollOnPage(page, { name: "New phone" });
      // Nine recovery codes are left, so no new ones are created.
      await expect(page).toHaveURL("/workspaces");
      await page.goto("/settings/security");
      await expect(apps(page).getByText("New phone")).toBeVisible();
      await expect(page.getByText("9 codes left")).toBeVisible();
    });

    test("an account that requires MFA must add an authenticator app before anything else", async ({
      page,
      member,
    }) => {
      await requireMfa({ id: await idOf(member) });
      await signIn(page, member, { at: "/login?returnUrl=%2Fworkspaces" });
      await expect(heading(page, "Add an authenticator app")).toBeVisible();
      await expect(page.getByText("Your account requires one")).toBeVisible();
      await expectWellMade(page);
      await page.goto("/settings/security");
      await expect(heading(page, "Add an authenticator app")).toBeVisible();
      await page.goto("/workspaces");
      await enrollOnPage(page);
      await page.getByRole("link", { name: "I’ve saved them" }).click();
      await expect(page).toHaveURL("/workspaces");
      await expect(heading(page, "Workspaces")).toBeVisible();
    });

    test("a person with an authenticator app replaces a forgotten password after entering a code", async ({
      page,
      member,
    }) => {
      const [app] = await enroll(member, "Phone");
      await page.goto("/forgot-password");
      await page.getByLabel("Email").fill(member.email);
      await page.getByRole("button", { name: "Send reset link" }).click();
      await page.goto(await confirmationLink(member.email));
      await page.getByRole("button", { name: "Continue" }).click();
      await expect(heading(page, "Enter your code")).toBeVisible();
      await enterCode(page, codeOf(app));
      await expect(heading(page, "Choose a new password")).toBeVisible();
      const password = `quite another ${crypto.randomUUID()}`;
      await page.getByLabel("New password").fill(password);
      await page.getByRole("button", { name: "Change password" }).click();
      await expect(heading(page, "Password changed")).toBeVisible();
      await page.context().clearCookies();
      await signIn(page, { ...member, password });
      await expect(heading(page, "Enter your code")).toBeVisible();
    });

    test("a security change asks for a code again if the last code is more than ten minutes old", async ({
      page,
      context,
      baseURL,
      member,
    }) => {
      const [app] = await enroll(member, "Phone", "Tablet");
      await comeBackLater(context, { person: member, app, url: baseURL ?? "" });
      await page.goto("/settings/security");
      await page.getByRole("link", { name: "Remove Tablet" }).click();
      await expect(heading(page, "Confirm it’s you")).toBeVisible();
      await expectWellMade(page);
      await page.getByRole("radio", { name: "Phone" }).check();
      await enterCode(page, codeOf(app));
      await expect(heading(page, "Remove authenticator app “Tablet”?")).toBeVisible();
      await expectWellMade(page);
      await page.getByRole("button", { name: "Remove app" }).click();
      await expect(page).toHaveURL("/settings/security");
      await expect(apps(page).getByText("Tablet")).toHaveCount(0);
      await expect(apps(page).getByText("Phone")).toBeVisible();
    });

    test("a security change asks for the password again if the account has no authenticator app", async ({
      page,
      context,
      baseURL,
      member,
    }) => {
      await comeBackLater(context, { person: member, url: baseURL ?? "" });
      await page.goto("/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity");
      await expect(heading(page, "Confirm it’s you")).toBeVisible();
      await expectWellMade(page);
      await page.getByLabel("Password").fill("not the password");
      await page.getByRole("button", { name: "Confirm" }).click();
      await expect(page.getByRole("alert")).toContainText("That password is incorrect");
      await expect(page.getByLabel("Password")).toHaveAccessibleDescription(/That password is incorrect/);
      await page.getByLabel("Password").fill(member.password);
      await page.getByRole("button", { name: "Confirm" }).click();
      await expect(page).toHaveURL("/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity");
      await expect(heading(page, "Add an authenticator app")).toBeVisible();
    });
  });
}

test("a person with several authenticator apps can choose one of them", async ({ page, member }) => {
  const [, tablet] = await enroll(member, "Phone", "Tablet");
  await signIn(page, member);
  await expect(page.getByRole("group", { name: "Which app shows the code?" })).toBeVisible();
  await page.getByRole("radio", { name: "Phone" }).check();
  await page.getByRole("radio", { name: "Tablet" }).check();
  await expectAccessible(page);
  await enterCode(page, codeOf(tablet as AuthenticatorApp));
  await expect(heading(page, "Home")).toBeVisible();
});

test("the second-step challenge works with the keyboard only", async ({ page, member }) => {
  const [app] = await enroll(member, "Phone");
  await signIn(page, member);
  const field = page.getByLabel("6-digit code");
  await expect(field).toBeFocused();
  await expect(field).toHaveAttribute("autocomplete", "one-time-code");
  await expect(field).toHaveAttribute("inputmode", "numeric");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Verify" })).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("link", { name: /^Use a recovery code/ })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: /^Approve on your phone/ })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: /^Use a recovery code/ })).toBeFocused();
  await expectAccessible(page);
  await field.focus();
  await page.keyboard.type(codeOf(app));
  await page.keyboard.press("Enter");
  await expect(heading(page, "Home")).toBeVisible();
});

test("a person who cannot pass the second step can sign out", async ({ page, member }) => {
  await enroll(member, "Phone");
  await signIn(page, member);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page).toHaveURL("/login");
  await page.goto("/mfa");
  await expect(page).toHaveURL("/login");
});

test("buttons copy the authenticator key and the recovery codes", async ({ page, context, member }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await signIn(page, member, { at: "/login?returnUrl=%2Fmfa%2Fenroll" });
  await page.getByRole("button", { name: "Set up app" }).click();
  await page.getByRole("button", { name: "Copy Key" }).click();
  await expect(page.getByRole("button", { name: "Copied Key" })).toBeVisible();
  const secret = await page.evaluate(() => navigator.clipboard.readText());
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  await expect(page.getByRole("link", { name: "Open it" })).toHaveAttribute(
    "href",
    new RegExp(`^otpauth://totp/Gatehouse:.*secret=${secret}`),
  );
  await enterCode(page, codeOf({ secret }));
  await page.getByRole("button", { name: "Copy" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied.split("\n")).toHaveLength(10);
  await expect(page.getByRole("button", { name: "Print" })).toBeVisible();
});

test("after an API response that requires a second step, the next page is the second-step challenge", async ({
  page,
  member,
}) => {
  await enroll(member, "Phone");
  await signIn(page, member);
  const refused = await page.request.get("/api/v1/users/me/sessions");
  expect([refused.status(), (await refused.json()).code]).toEqual([403, "MFA_REQUIRED"]);
  await page.goto("/workspaces");
  await expect(page).toHaveURL("/mfa?returnUrl=%2Fworkspaces");
});
