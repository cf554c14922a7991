import { randomBytes } from "node:crypto";
import type { BrowserContext, Page } from "playwright/test";
import { freePort, startSatellite, startWeb } from "../remix-app/testing/web-process.ts";
import { createApp, mint, signInAgain } from "../scripts/test/apps.ts";
import { query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { chromiumOnly } from "./firefox.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

const { base, satellites } = readStack();
const notes = satellites.find(({ name }) => name === "notes")?.url ?? "";

async function workspaceOf({ email }: Person): Promise<string> {
  const [workspace] = await query<{ id: string }>(
    `select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1`,
    [email],
  );
  if (!workspace) throw new Error("they have no workspace");
  return workspace.id;
}

/** Signs in on the platform's page that an app redirected to, and continues to the app. */
async function signInFor(page: Page, { email, password }: Person): Promise<void> {
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("button", { name: `Continue as ${email}` }).click();
}

const signedInAs = (page: Page, { email }: Person) => expect(page.getByText(`Signed in as ${email}`)).toBeVisible();
const signedOut = (page: Page) => expect(page.getByText("Sign in with your Gatehouse account")).toBeVisible();

/** Returns the satellite's own cookies. The browser may also send cookies of the parent domain to the satellite. */
async function ownCookies(context: BrowserContext): Promise<string[]> {
  const names = (await context.cookies(notes)).map(({ name }) => name);
  return names.filter((name) => name.includes("platform_"));
}

/** Records the URL and referrer of every request that the browser sends from now on. */
function recordRequests(context: BrowserContext) {
  const seen: Promise<{ url: string; referer: string }>[] = [];
  context.on("request", (request) => {
    const url = request.url();
    seen.push(request.allHeaders().then(({ referer = "" }) => ({ url, referer })));
  });
  return () => Promise.all(seen);
}

test("a visitor of a satellite signs in on the platform and returns to the same page, without the token in the URL", async ({
  page,
  context,
  member,
}) => {
  const requests = recordRequests(context);
  const there = `${notes}/w/${await workspaceOf(member)}?from=mail`;
  await page.goto(there);
  expect(new URL(page.url()).origin).toBe(base);
  await expect(page.getByText("To continue to Notes.")).toBeVisible();
  await signInFor(page, member);
  await expect(page).toHaveURL(there);
  await expectWellMade(page);

  const seen = await requests();
  const arrivals = seen.filter(({ url }) => url.startsWith(`${notes}/verify-token?`));
  const token = new URL(arrivals[0]?.url ?? "").searchParams.get("token") ?? "";
  expect([arrivals.length, token]).toEqual([1, expect.stringMatching(/^xat_/)]);
  expect(seen.filter(({ url, referer }) => `${url} ${referer}`.includes(token))).toEqual(arrivals);
  expect(seen.some(({ referer }) => referer.startsWith(notes))).toBe(true);
  await page.goBack();
  expect(page.url()).not.toContain(token);
  await page.goForward();

  await page.getByLabel("Name").fill(" ");
  await page.getByRole("button", { name: "Save name" }).click();
  await expect(page.getByRole("alert")).toContainText("1 to 80 characters");
  await page.getByLabel("Name").fill("Field work");
  await page.getByRole("button", { name: "Save name" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Field work" })).toBeVisible();
  await page.getByRole("link", { name: "All workspaces" }).click();
  await signedInAs(page, member);
  await expectWellMade(page);

  await page.getByRole("button", { name: "Sign out of Notes" }).click();
  await signedOut(page);
  expect(await ownCookies(context)).toEqual([]);
  await page.goto(`${base}/workspaces`);
  await expect(page.getByRole("link", { name: /Field work/ })).toBeVisible();
});

test("a session that ends on the platform also ends on any open page of the satellite", async ({
  page,
  context,
  member,
}) => {
  await page.goto(`${notes}/sign-in`);
  await signInFor(page, member);
  await signedInAs(page, member);
  const platform = await context.newPage();
  await platform.goto(`${base}/`);
  await platform.getByRole("button", { name: "Account menu" }).click();
  await platform.getByRole("button", { name: "Sign out" }).click();
  await page.reload();
  await signedOut(page);
  expect(await ownCookies(context)).toEqual([]);
});

test("a session revoked on the platform ends at the next click in the satellite, where the person can sign in again", async ({
  page,
  context,
  member,
}) => {
  await page.goto(`${notes}/sign-in`);
  await signInFor(page, member);
  await signedInAs(page, member);
  const revoked = await query(
    `update private.app_sessions s set revoked_at = now() from auth.users u
     where u.id = s.user_id and u.email = $1 and s.revoked_at is null returning s.id`,
    [member.email],
  );
  expect(revoked).toHaveLength(2);
  await page.getByRole("list").getByRole("link").first().click();
  await expect(page.getByRole("button", { name: `Continue as ${member.email}` })).toBeVisible();
  expect(await ownCookies(context)).toEqual(["platform_sign_in_state"]);
  await page.getByRole("button", { name: `Continue as ${member.email}` }).click();
  await expect(page.getByRole("button", { name: "Save name" })).toBeVisible();
});

test("before a satellite sign-in completes, the platform and the satellite each show the account and let the person decline", async ({
  page,
  member,
  colleague,
}) => {
  await enter(page, member);
  await page.goto(`${notes}/sign-in`);
  await expect(page.getByRole("button", { name: `Continue as ${member.email}` })).toBeVisible();
  await page.getByRole("link", { name: "Use another account" }).click();
  await signInFor(page, colleague);
  await signedInAs(page, colleague);

  // A link that an attacker created to sign this browser in to the attacker's account.
  const token = await mint(await signInAgain(member), { id: "", name: "notes", secret: "" });
  const link = `${notes}/verify-token?${new URLSearchParams({ token, nextUrl: "/", state: "theirs" })}`;
  await page.goto(link);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Continue as ${member.email}?`);
  expect(page.url()).toBe(`${notes}/verify-token`);
  await expectWellMade(page);
  await page.getByRole("link", { name: "Cancel" }).click();
  await signedInAs(page, colleague);
  await page.goto(link);
  await page.getByRole("button", { name: `Continue as ${member.email}` }).click();
  await signedInAs(page, member);
  await page.goto(link);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("This sign-in link doesn’t work");
});

test("a satellite on an unregistered origin cannot sign visitors in", async ({ page, member }) => {
  // Gives this satellite its own host name, because another test may have registered the same port on 127.0.0.1.
  const stranger = await startSatellite({
    app: await createApp({ scopes: ["profile"] }),
    centralUrl: base,
    hostname: "stranger.localhost",
  });
  try {
    await page.goto(`${stranger.base}/sign-in`);
    await expect(page.getByText("isn’t part of this site")).toBeVisible();
    await page.getByLabel("Email").fill(member.email);
    await page.getByLabel("Password", { exact: true }).fill(member.password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
    expect(new URL(page.url()).origin).toBe(base);
  } finally {
    await stranger.stop();
  }
});

test("a satellite under the platform's parent domain keeps its cookies host-only and ignores the platform's cookies", async ({
  page,
  context,
  member,
}) => {
  const { url, publishableKey, secretKey } = readStack().supabase;
  const parentDomain = "gatehouse.localhost";
  const web = await startWeb(url, {
    hostname: `web.${parentDomain}`,
    env: {
      SUPABASE_PUBLISHABLE_KEY: publishableKey,
      SUPABASE_SECRET_KEY: secretKey,
      PARENT_DOMAIN: parentDomain,
      APP_SESSION_SECRET: randomBytes(32).toString("base64url"),
    },
  });
  const port = await freePort();
  const hostname = `memo.${parentDomain}`;
  const origin = `http://${hostname}:${port}`;
  const app = await createApp({ scopes: ["profile", "workspaces:read"], displayName: "Memo", origins: [origin] });
  const memo = await startSatellite({ app, centralUrl: web.base, hostname, port });
  try {
    await page.goto(`${origin}/sign-in`);
    expect(new URL(page.url()).origin).toBe(web.base);
    await signInFor(page, member);
    await signedInAs(page, member);
    // The browser also sends the platform's cookie to the satellite, which must not read it.
    const cookies = await context.cookies(origin);
    const shared = cookies.filter(({ name }) => name.startsWith("sb-"));
    const own = cookies.filter(({ name }) => !name.startsWith("sb-"));
    expect(shared.map(({ domain }) => domain)).toEqual([`.${parentDomain}`]);
    expect(own.map(({ name, domain, httpOnly }) => [name, domain, httpOnly])).toEqual([
      ["platform_app_session", hostname, true],
      ["platform_central_session", hostname, true],
    ]);
    expect((await context.cookies(web.base)).filter(({ name }) => name.startsWith("platform_"))).toEqual([]);

    await page.getByRole("button", { name: /^Sign out of/ }).click();
    await signedOut(page);
    expect((await context.cookies(origin)).map(({ name }) => name)).toEqual(shared.map(({ name }) => name));
    await page.goto(`${web.base}/`);
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  } finally {
    await Promise.all([memo.stop(), web.stop()]);
  }
});

test(
  "signing in to a satellite and out of it works without JavaScript",
  chromiumOnly.noScript,
  async ({ browser, member }) => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const requests = recordRequests(context);
    await page.goto(`${notes}/w/${await workspaceOf(member)}`);
    await signInFor(page, member);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Signing you in");
    const token = new URL(page.url()).searchParams.get("token") ?? "";
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByLabel("Name").fill("By hand");
    await page.getByRole("button", { name: "Save name" }).click();
    await expect(page.getByText("Name changed")).toBeVisible();
    const seen = await requests();
    expect(seen.filter(({ referer }) => token !== "" && referer.includes(token))).toEqual([]);
    expect(seen.filter(({ url }) => url.includes(token))).toHaveLength(1);
    await page.goto(notes);
    await page.getByRole("button", { name: "Sign out of Notes" }).click();
    await signedOut(page);
    await context.close();
  },
);
