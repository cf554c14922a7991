import type { Locator, Page } from "playwright/test";
import { query, requireMfa } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { chromiumOnly } from "./firefox.ts";
import { enter, expect, hold, type Person, signIn, test } from "./test.ts";

const headers = { Origin: readStack().base };
const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name, exact: true });
const sessionOf = (page: Page) => page.locator("html").getAttribute("data-session");
/** Returns whether each of the page's requests for its session began before the page was parsed. */
const sessionRequests = `performance.getEntriesByType("resource")
  .filter(({ name }) => name.endsWith("/api/v1/auth/session"))
  .map(({ startTime }) => startTime < performance.getEntriesByType("navigation")[0].domInteractive)`;
/** The settings' section that the tests prefetch or keep. */
const profile = (page: Page) =>
  page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name: "Profile" });

/** Records the path and the session of everything that the tab shows. */
async function recordShown(page: Page): Promise<() => Promise<string[]>> {
  await page.addInitScript(() => {
    function record() {
      const { body, documentElement } = document;
      if (document.querySelector("main") && getComputedStyle(body).visibility === "visible") {
        const shown = new Set(JSON.parse(sessionStorage.getItem("shown") ?? "[]"));
        shown.add(`${location.pathname} ${documentElement.dataset.session}`);
        sessionStorage.setItem("shown", JSON.stringify([...shown]));
      }
      requestAnimationFrame(record);
    }
    requestAnimationFrame(record);
  });
  return () => page.evaluate(() => JSON.parse(sessionStorage.getItem("shown") ?? "[]"));
}

/** Rests the pointer on a link until the browser has prefetched its page. */
async function prefetch(page: Page, link: Locator = profile(page)): Promise<void> {
  const preload = await page.context().newCDPSession(page);
  const ready = new Promise<void>((resolve) =>
    preload.on("Preload.prefetchStatusUpdated", ({ status }) => {
      if (status === "Ready") resolve();
    }),
  );
  await preload.send("Preload.enable");
  await link.hover();
  await ready;
}

/** Returns how the browser got the page. */
const deliveryOf = (page: Page) => page.evaluate('performance.getEntriesByType("navigation")[0].deliveryType');

/**
 * Dispatches the events with which browsers put a page into their back/forward cache and show it again. The tests'
 * Chromium has no such cache.
 */
const leave = (page: Page) =>
  page.evaluate(() => void dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })));
const comeBack = (page: Page) =>
  page.evaluate(() => void dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));

async function keep(page: Page): Promise<void> {
  await profile(page).click();
  await expect(heading(page, "Profile")).toBeVisible();
  await leave(page);
}

const ways = {
  prefetched: {
    options: chromiumOnly.prefetch,
    prepare: (page: Page) => prefetch(page),
    open: (page: Page) => profile(page).click(),
  },
  kept: { options: {}, prepare: keep, open: comeBack },
};

test(
  "a prefetched page opens without another request for it, and a kept page returns as it was",
  chromiumOnly.prefetch,
  async ({ page, member }) => {
    await enter(page, member, "/settings/security");
    await prefetch(page);
    await profile(page).click();
    await expect(heading(page, "Profile")).toBeVisible();
    expect(await deliveryOf(page)).toBe("navigational-prefetch");
    // Its confirmation is requested once, while the page is parsed.
    expect(await page.evaluate(sessionRequests)).toEqual([true]);

    await page.evaluate("window.kept = true");
    await leave(page);
    await expect(heading(page, "Profile")).toBeHidden();
    await comeBack(page);
    await expect(heading(page, "Profile")).toBeVisible();
    expect(await page.evaluate("window.kept")).toBe(true);
  },
);

test(
  "the playground hydrates after visits to pages of other parts of the server, of which one is prefetched",
  chromiumOnly.prefetch,
  async ({ page, member }) => {
    const faults: string[] = [];
    page.on("pageerror", ({ message }) => faults.push(message));
    const expectHydrated = async () => {
      await page.getByRole("button", { name: "Send" }).click();
      await expect(page.getByRole("alert")).toContainText("Write a message.");
    };
    const [workspace] = await query<{ id: string }>(
      "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
      [member.email],
    );
    await enter(page, member, `/workspaces/${workspace?.id}/ai/playground`);
    await expectHydrated();
    const overview = page.getByRole("navigation", { name: "Workspace" }).getByRole("link", { name: "Overview" });
    await prefetch(page, overview);
    await overview.click();
    await expect(heading(page, "Overview")).toBeVisible();
    expect(await deliveryOf(page)).toBe("navigational-prefetch");
    await page.goBack();
    await expectHydrated();
    await page.getByRole("button", { name: "Account menu" }).click();
    await page.locator("#account-menu").getByRole("link", { name: "Settings" }).click();
    await expect(heading(page, "Profile")).toBeVisible();
    await page.goBack();
    await expectHydrated();
    expect(faults).toEqual([]);
  },
);

/** What may happen between loading a page in advance and opening it. None of it reaches the tab by itself. */
const changes: Record<
  string,
  { change: (page: Page, people: Record<"member" | "colleague", Person>) => Promise<void>; opens: string }
> = {
  "a switch to another account": {
    async change(page) {
      const { accounts } = await (await page.request.get("/api/v1/auth/accounts")).json();
      const other = accounts.find(({ active }: { active: boolean }) => !active);
      const answer = await page.request.post("/api/v1/auth/accounts/switch", {
        headers,
        data: { accountId: other.id },
      });
      expect(answer.ok()).toBe(true);
    },
    opens: "Profile",
  },
  "a sign-out": {
    async change(page) {
      expect((await page.request.post("/api/v1/auth/accounts/logout-all", { headers })).ok()).toBe(true);
    },
    opens: "Sign in",
  },
  "a sign-out and another sign-in": {
    async change(page, { member }) {
      await page.context().clearCookies();
      await hold(page.context(), member);
    },
    opens: "Profile",
  },
  "a change of the account's MFA policy": {
    async change(_, { member }) {
      const [account] = await query<{ id: string }>("select id from auth.users where email = $1", [member.email]);
      await requireMfa({ id: account?.id ?? "" });
    },
    opens: "Add an authenticator app",
  },
};

for (const [way, { options, prepare, open }] of Object.entries(ways)) {
  for (const [name, { change, opens }] of Object.entries(changes)) {
    test(`a page that was ${way} before ${name} is never shown`, options, async ({ page, member, colleague }) => {
      await enter(page, colleague);
      await signIn(page, member, { at: "/add-account" });
      await expect(heading(page, "Home")).toBeVisible();
      const shown = await recordShown(page);
      await page.goto("/settings/security");
      const before = await sessionOf(page);
      await prepare(page);
      await change(page, { member, colleague });
      await page.evaluate("sessionStorage.removeItem('shown')");
      await open(page);
      await expect(heading(page, opens)).toBeVisible();
      expect(await shown()).not.toContain(`/settings/profile ${before}`);
      expect(await sessionOf(page)).not.toBe(before);
    });
  }
}

test("a kept page stays hidden while the server cannot be reached, and offers to try again", async ({
  page,
  member,
}) => {
  await enter(page, member, "/settings/profile");
  await leave(page);
  await page.route("**/api/v1/auth/session", (route) => route.abort());
  await comeBack(page);
  const retry = page.getByRole("button", { name: "Try again" });
  await expect(page.getByText("The server can’t be reached.")).toBeVisible();
  await expect(heading(page, "Profile")).toBeHidden();
  await Promise.all([page.waitForEvent("requestfailed"), retry.click()]);
  await page.unroute("**/api/v1/auth/session");
  await expect(heading(page, "Profile")).toBeHidden();
  await retry.click();
  await expect(heading(page, "Profile")).toBeVisible();
  await expect(retry).toBeHidden();
});

test("a form that was sent can be sent again after the page came back", async ({ page, member }) => {
  await enter(page, member, "/settings/profile");
  const form = page.locator("main form[method=post]").first();
  // The last listener, so that the page's own script takes the form for sent.
  await page.evaluate(() => addEventListener("submit", (event) => event.preventDefault()));
  await form.getByRole("button").first().click();
  await expect(form).toHaveAttribute("data-sent");
  await leave(page);
  await comeBack(page);
  await expect(form).not.toHaveAttribute("data-sent");
});

test("a secret that is shown once does not come back by the back button", async ({ page, member }) => {
  await enter(page, member, "/settings/security");
  await page.evaluate(() => {
    document.querySelector("main")?.append(Object.assign(document.createElement("p"), { textContent: "ttr_secret" }));
    document.querySelector("main")?.lastElementChild?.setAttribute("data-shown-once", "");
  });
  await leave(page);
  await comeBack(page);
  await expect(page.getByText("ttr_secret")).toHaveCount(0);
  await expect(heading(page, "Security")).toBeVisible();
});
