import { gzipSync } from "node:zlib";
import { expect, expectWellMade, signIn, test } from "./test.ts";

const maxScriptBytes = 15 * 1024;

test("a person can use the sign-in page with only the keyboard", async ({ page, member }) => {
  await page.goto("/login");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Gatehouse" })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(page.getByLabel("Email")).toBeFocused();
  await page.keyboard.type(member.email);
  await page.keyboard.press("Tab");
  // The Tab key may reach the "Forgot password?" link before the password field.
  if (!(await page.getByLabel("Password").evaluate((field) => field === document.activeElement))) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.type(member.password);
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Show" })).toBeFocused();
  await page.keyboard.press("Space");
  await expect(page.getByLabel("Password")).toHaveAttribute("type", "text");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Sign in", exact: true })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  await page.getByRole("button", { name: "Account menu" }).focus();
  await page.keyboard.press("Enter");
  const signOut = page.getByRole("button", { name: "Sign out" });
  await expect(signOut).toBeVisible();
  for (let press = 0; press < 8 && !(await signOut.evaluate((node) => node === document.activeElement)); press += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(signOut).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
});

test("a wrong password and an unknown email get the same response, in a focused summary", async ({ page, member }) => {
  const answers: string[] = [];
  for (const email of [member.email, "unknown@e2e.gatehouse.test"]) {
    await signIn(page, { email, password: "not the password" });
    const summary = page.getByRole("alert");
    await expect(summary).toBeFocused();
    answers.push((await summary.textContent()) ?? "");
    await expect(page.getByLabel("Email")).toHaveValue(email);
    await expect(page.getByLabel("Password")).toHaveValue("");
  }
  expect(answers[0]).toBe(answers[1]);
  await expectWellMade(page);
});

test("errors appear at their fields, and the summary links to them", async ({ page }) => {
  await page.goto("/login");
  await page.getByLabel("Email").fill("not an address");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  const email = page.getByLabel("Email");
  await expect(email).toHaveAttribute("aria-invalid", "true");
  await expect(email).toHaveAccessibleDescription(/such as name@example.com/);
  await page.getByRole("alert").getByRole("link", { name: "Enter your password" }).click();
  await expect(page.getByLabel("Password")).toBeFocused();
});

test("a protected page asks for a sign-in and then opens", async ({ page, member }) => {
  await page.goto("/workspaces?sort=name");
  await expect(page).toHaveURL(`/login?${new URLSearchParams({ returnUrl: "/workspaces?sort=name" })}`);
  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("Password").fill("wrong first");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByLabel("Password").fill(member.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page).toHaveURL("/workspaces?sort=name");
  await expect(page.getByRole("heading", { name: "Workspaces", level: 1 })).toBeVisible();
  await expectWellMade(page);

  await page.getByRole("main").getByRole("link").first().click();
  await expect(page.getByRole("heading", { name: "Get started" })).toBeVisible();
  await expectWellMade(page);
});

test("the auth cookie is HttpOnly, Lax and host-only by default, and signing out removes it", async ({
  page,
  context,
  member,
}) => {
  await signIn(page, member);
  await expect(page).toHaveURL("/");
  const authCookies = async () => (await context.cookies()).filter(({ name }) => name.startsWith("sb-"));
  expect(await authCookies()).toEqual([
    expect.objectContaining({ httpOnly: true, sameSite: "Lax", path: "/", domain: "localhost", secure: false }),
  ]);
  const [cookie] = await authCookies();
  const stored = JSON.parse(Buffer.from((cookie?.value ?? "").slice("base64-".length), "base64url").toString());
  expect(Object.keys(stored).sort()).toEqual([
    "access_token",
    "expires_at",
    "expires_in",
    "refresh_token",
    "token_type",
  ]);
  expect(await page.content()).not.toContain(stored.access_token);
  expect(await page.evaluate("document.cookie")).not.toContain("sb-");

  const session = await page.request.get("/api/v1/auth/session");
  expect(await session.json()).toMatchObject({ user: { email: member.email }, aal: "aal1", mfa: { required: false } });
  expect(session.headers()["cache-control"]).toContain("no-store");

  await page.getByRole("button", { name: "Account menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page).toHaveURL("/login");
  expect(await authCookies()).toEqual([]);
  const replay = await page.request.get("/api/v1/auth/session", {
    headers: { cookie: `${cookie?.name}=${cookie?.value}` },
  });
  expect(replay.status()).toBe(401);
});

test("the sign-in page loads at most 15 KB of gzipped scripts, without the identity backend's client", async ({
  page,
}) => {
  const scripts: string[] = [];
  page.on("response", async (response) => {
    if (response.request().resourceType() === "script") scripts.push(await response.text());
  });
  await page.goto("/login", { waitUntil: "networkidle" });
  scripts.push(...(await page.locator("script:not([src])").allTextContents()));
  const bytes = scripts.reduce((total, script) => total + gzipSync(script).byteLength, 0);
  console.log(
    `sign-in page: ${bytes} bytes of gzipped script in ${scripts.length} file(s), of ${maxScriptBytes} allowed`,
  );
  test.info().annotations.push({ type: "script", description: `${bytes} bytes gzipped` });
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThanOrEqual(maxScriptBytes);
  expect(scripts.join("\n")).not.toMatch(/supabase|access_token/i);
});
