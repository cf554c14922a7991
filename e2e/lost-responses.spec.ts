import type { Page, Request } from "playwright/test";
import { openPhone, unlockedPhone } from "../remix-app/testing/phone.ts";
import { signedInLongAgo } from "../scripts/test/people.ts";
import { createHelper, type Helper } from "../scripts/test/recovery-help.ts";
import { readStack } from "../scripts/test/stack.ts";
import { linkOfMail } from "./mailbox.ts";
import { enter, expect, type Person, signIn, test } from "./test.ts";

const { base, supabase } = readStack();
let helper: Helper;

test.beforeAll(async () => {
  helper = await createHelper();
});
test.afterAll(() => helper.leave());

const isForm = (request: Request) => request.headers()["content-type"]?.startsWith("application/x-www-form") ?? false;

/**
 * Lets the server process one request, by default the next form submission, and cuts the response, so that the browser
 * receives only the headers and cookies. The integration tests cover responses of which nothing arrives.
 * @returns `processed`, which resolves once the response has been cut
 */
async function cutResponse(page: Page, { when = isForm }: { when?: (request: Request) => boolean } = {}) {
  const { promise: processed, resolve } = Promise.withResolvers<void>();
  await page.route("**/*", async (route) => {
    if (!when(route.request())) return route.fallback();
    const status = (await route.fetch({ maxRedirects: 0 })).status();
    await route.abort("connectionreset");
    await page.unroute("**/*");
    expect(status).toBeLessThan(400);
    resolve();
  });
  return { processed };
}

async function expectAccounts(page: Page, ...people: Person[]): Promise<void> {
  const response = await page.request.get("/api/v1/auth/accounts");
  const { accounts } = (await response.json()) as { accounts: { email: string; requiresReauth: boolean }[] };
  const emails = accounts.filter(({ requiresReauth }) => !requiresReauth).map(({ email }) => email);
  expect(emails.sort()).toEqual(people.map(({ email }) => email).sort());
}

async function expectActive(page: Page, { email }: Person): Promise<void> {
  const response = await page.request.get("/api/v1/auth/session");
  expect((await response.json()).user.email).toBe(email);
}

/** Gives the browser the session of a person who signed in more than ten minutes ago. */
async function enterStale(page: Page, { email, password }: Person): Promise<void> {
  const stale = await signedInLongAgo({ email, password }, { secondsAgo: 610 });
  await page.context().addCookies(
    stale
      .cookie()
      .split("; ")
      .map((pair) => {
        const at = pair.indexOf("=");
        return {
          name: pair.slice(0, at),
          value: pair.slice(at + 1),
          url: base,
          httpOnly: true,
          sameSite: "Lax" as const,
        };
      }),
  );
}

const home = (page: Page) => page.getByRole("heading", { level: 1, name: "Home" });

test("no account is lost if the response to signing in, adding or switching an account is cut off", async ({
  page,
  member,
  colleague,
}) => {
  const { processed: signedIn } = await cutResponse(page);
  await signIn(page, member);
  await signedIn;
  await page.goto("/");
  await expect(home(page)).toBeVisible();

  const other = await page.context().newPage();
  const { processed: added } = await cutResponse(page);
  await signIn(page, colleague, { at: "/add-account" });
  await added;
  await other.goto("/");
  await expect(home(other)).toBeVisible();
  await expectAccounts(page, member, colleague);
  await signIn(page, colleague, { at: "/add-account" });
  await expect(home(page)).toBeVisible();
  await expectAccounts(page, member, colleague);

  // The sign-in in `page` makes `other` navigate, which may abort this `goto`.
  await expect(() => other.goto("/accounts")).toPass();
  const { processed: switched } = await cutResponse(other);
  await other.getByRole("button", { name: new RegExp(`^Continue as .*${member.email}`) }).click();
  await switched;
  await page.goto("/settings/profile");
  await expectActive(page, member);
  await expectAccounts(page, member, colleague);
});

test("a step-up whose response was lost has taken effect or can be repeated", async ({ page, member }) => {
  await enterStale(page, member);
  await page.goto("/settings/security/password");
  await page.getByLabel("Password", { exact: true }).fill(member.password);
  const { processed } = await cutResponse(page);
  await page.getByRole("button", { name: "Confirm" }).click();
  await processed;
  await page.goto("/settings/security/password");
  await expect(page).toHaveURL("/settings/security/password");
  await expectAccounts(page, member);
});

test("confirming one's identity with a QR code completes even if a response is cut off", async ({ page, member }) => {
  const phone = await openPhone({ base, ...supabase }, member);
  await enter(page, member, "/qr?returnUrl=%2Fworkspaces");
  await page.getByRole("button", { name: "Show QR code" }).click();
  const poll = (await page.locator("#waiting").getAttribute("data-poll")) ?? "";
  const [, id, secret] = /challenges\/([^?]+)\?secret=(.+)$/.exec(poll) ?? [];
  await phone.post(`/api/v1/auth/qr-login/challenges/${id}/approve`, { secret, device: unlockedPhone });
  const { processed } = await cutResponse(page, { when: (request) => request.url().includes(poll) });
  await processed;
  await expect(page).toHaveURL("/workspaces");
  await expectAccounts(page, member);
});

test("account recovery by an emailed link can be repeated if the response was lost", async ({
  page,
  member,
  colleague,
}) => {
  await helper.send(colleague.email, await helper.override(colleague.email));
  const link = await linkOfMail(colleague.email, "Get back into your Gatehouse account");
  await enter(page, member, link);
  const goOn = page.getByRole("button", { name: /^Continue as/ });
  const { processed } = await cutResponse(page);
  await goOn.click();
  await processed;
  await page.goto("/");
  await expectAccounts(page, member, colleague);
});
