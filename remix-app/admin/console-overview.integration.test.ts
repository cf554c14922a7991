import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import type { Browser } from "../testing/browser.ts";
import { readMenuCounts, readOverview } from "./overview.ts";

const stack = readStack();
/** An address at which nothing listens. */
const nowhere = "http://127.0.0.1:9";
let admin: ConsoleAdmin;
let finance: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, finance, person] = await Promise.all([
    createConsoleAdmin(),
    createConsoleAdmin({ role: "finance" }),
    createPerson(),
  ]);
});
afterAll(() => Promise.all([admin, finance, person].map(deletePerson)));

const contextOf = (browser: Browser) => openContext({ ...stack, cookie: browser.cookie(), env: vaultSettings() });

describe("the console's overview", () => {
  test("is for admins: finance people are led to the books, others get 403", async () => {
    const first = await finance.browser.get("/admin");
    expect([first.status, first.location]).toEqual([302, "/admin/books"]);
    expect((await (await enter(person)).get("/admin")).status).toBe(403);
    const { status, words } = await admin.browser.get("/admin");
    expect([status, words]).toEqual([200, expect.stringContaining("Calls today")]);
  });

  test("leads addresses of the list of accounts to its new page, with their query", async () => {
    for (const search of ["?q=ada%40example.com", "?cursor=a", "?q=a&cursor=b"]) {
      const { status, location } = await admin.browser.get(`/admin${search}`);
      expect([status, location]).toEqual([302, `/admin/accounts${search}`]);
    }
  });

  test("stays under 100 KB with 130 rows of everything, lists 10 of them, and links to where each is decided", async () => {
    const tag = crypto.randomUUID().slice(0, 8);
    const [workspace] = await query<{ id: string }>(
      "insert into public.workspaces (name, plan_id, created_by) values (rpad('Long ' || $2, 80, 'x'), 'free', $1) returning id",
      [person.id, tag],
    );
    await query(
      `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, refused_at, starts_at, ends_at)
       select 'member', gen_random_uuid(), $1, 5, 5, now() + interval '1 minute', date_trunc('month', now()),
         date_trunc('month', now()) + interval '1 month' from generate_series(1, 130)`,
      [workspace?.id],
    );
    await query(
      `insert into private.recovery_overrides (email, reason, created_by, created_at, expires_at)
       select rpad('a' || n || '-' || $2, 80, 'x') || '@example.com', 'test', $1, now() - interval '20 days', now() + interval '1 day'
       from generate_series(1, 130) as n`,
      [admin.id, tag],
    );
    try {
      const { status, text, words } = await admin.browser.get("/admin");
      expect(status).toBe(200);
      expect(Buffer.byteLength(text)).toBeLessThan(100_000);
      expect(text.match(new RegExp(`href="/admin/workspaces/${workspace?.id}"`, "g"))).toHaveLength(10);
      expect(text.match(new RegExp(`/admin/recovery\\?email=a\\d+-${tag}x+%40example.com`, "g"))).toHaveLength(10);
      expect(words).toMatch(/The 10 latest of (1[3-9]\d|[2-9]\d\d|1,000)/);
      expect(text).toMatch(/>99\+<[^,]*, [\d,]+\+? need attention</);
      expect(words).not.toContain("Nothing needs you.");
    } finally {
      await query("delete from private.recovery_overrides where email like '%' || $1 || 'x%'", [tag]);
      await query("delete from ai.budgets where workspace_id = $1", [workspace?.id]);
    }
  });

  test("turns emails about outages off and on with its button", async () => {
    const press = async (button: string, outages: string) => {
      expect((await admin.browser.get("/admin")).words).toContain(button);
      expect((await admin.browser.post("/admin", { outages })).location).toBe("/admin");
    };
    await press("Stop these emails", "off");
    await press("Email me about outages", "on");
    expect((await admin.browser.post("/admin", { outages: "maybe" })).status).toBe(400);
    expect((await finance.browser.post("/admin", { outages: "on" })).status).toBe(403);
  });

  test("answers 503 if the database doesn't answer", async () => {
    const context = await contextOf(admin.browser);
    const failed = readOverview({ ...context, env: { ...context.env, SUPABASE_URL: nowhere } }, { costProviders: [] });
    await expect(failed).rejects.toMatchObject({ status: 503 });
  });
});

describe("the counts of the console's menu", () => {
  const countsOf = async (browser: Browser) => readMenuCounts(await contextOf(browser), { costProviders: [] });

  test("are all sections' for admins, only the books' for finance people, and none for others", async () => {
    const sections = ["accounts", "approvals", "books", "providers", "recovery", "service-accounts"];
    expect(Object.keys(await countsOf(admin.browser)).toSorted()).toEqual(sections.map((name) => `/admin/${name}`));
    expect(Object.keys(await countsOf(finance.browser))).toEqual(["/admin/books"]);
    expect(await countsOf(await enter(person))).toEqual({});
    expect(await countsOf({ ...admin.browser, cookie: () => "" })).toEqual({});
    // The second factor is still missing.
    expect(await countsOf(await enter(admin))).toEqual({});
  });

  test("are none, and no error, if the database doesn't answer", async () => {
    const context = await contextOf(admin.browser);
    const counts = readMenuCounts(
      { ...context, env: { ...context.env, SUPABASE_URL: nowhere } },
      { costProviders: [] },
    );
    expect(await counts).toEqual({});
  });
});
