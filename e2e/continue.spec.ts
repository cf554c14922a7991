import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { asApp, createApp, paths, type TestApp } from "../scripts/test/apps.ts";
import { chromiumOnly } from "./firefox.ts";
import { test as base, enter, expect, expectWellMade, signIn } from "./test.ts";

interface Elsewhere {
  origin: string;
  app: TestApp;
}

/** Starts a third-party app on its own origin. Its only page completes a sign-in. */
async function startApp(displayName: string, { verifyRoute = true } = {}): Promise<Elsewhere & { stop(): void }> {
  const server = createServer((request, response) => {
    const known = verifyRoute || !request.url?.startsWith("/verify-token");
    response.writeHead(known ? 200 : 404, { "content-type": "text/html" });
    response.end(`<h1>${displayName}</h1>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const app = await createApp({ scopes: ["profile"], displayName, origins: [origin] });
  return { origin, app, stop: () => server.close() };
}

const test = base.extend<{ notes: Elsewhere }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  notes: async ({}, use) => {
    const started = await startApp("Field notes");
    await use(started);
    started.stop();
  },
});

const loginFor = (address: string, state = "s-1") => `/login?${new URLSearchParams({ returnUrl: address, state })}`;

test("signing in to an app shows the consent page, then returns to the app's page where the sign-in started", async ({
  page,
  member,
  notes,
}) => {
  await page.goto(loginFor(`${notes.origin}/pages/7?tab=2`));
  await expect(page.getByText("To continue to Field notes.")).toBeVisible();
  await signIn(page, member, { at: loginFor(`${notes.origin}/pages/7?tab=2`) });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in to Field notes");
  await expectWellMade(page);
  await page.getByRole("button", { name: `Continue as ${member.email}` }).click();
  await page.waitForURL((url) => url.origin === notes.origin);
  const there = new URL(page.url());
  expect([there.pathname, there.searchParams.get("nextUrl"), there.searchParams.get("state")]).toEqual([
    "/verify-token",
    "/pages/7?tab=2",
    "s-1",
  ]);
  const token = there.searchParams.get("token");
  const redeemed = await asApp(notes.app, paths.validate, { token });
  expect([redeemed.status, redeemed.body]).toMatchObject([200, { userId: expect.any(String), appSession: {} }]);
  const again = await asApp(notes.app, paths.validate, { token });
  expect([again.status, again.body]).toEqual([200, null]);
});

test("a sign-in for an unregistered origin ignores that origin and shows a notice", async ({ page, member, notes }) => {
  const { port } = new URL(notes.origin);
  for (const stranger of [`http://localhost:${port}/`, "https://notes.example/", `${notes.origin}.evil.example/`]) {
    await page.goto(loginFor(stranger));
    await expect(page.getByText("isn’t part of this site")).toBeVisible();
  }
  await enter(page, member);
  await page.goto(`/continue?${new URLSearchParams({ returnUrl: "https://notes.example/" })}`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("This app isn’t registered");
});

test("continuing to an app works without JavaScript", chromiumOnly.noScript, async ({ browser, member, notes }) => {
  const page = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await signIn(page, member, { at: loginFor(`${notes.origin}/a`) });
  await page.getByRole("button", { name: /^Continue as/ }).click();
  await page.waitForURL((url) => url.origin === notes.origin);
});
