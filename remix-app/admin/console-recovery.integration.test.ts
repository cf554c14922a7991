import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";
import { linesPerRead } from "./audit-log.ts";

let admin: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  admin = await createConsoleAdmin();
});
afterAll(() => deletePerson(admin));
beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const of = (email: string) => new URLSearchParams({ email });
const page = (email = person.email) => `/admin/recovery?${of(email)}`;
const makePage = (email = person.email) => `/admin/recovery/new?${of(email)}`;
const filled = (more: Record<string, string> = {}) => ({
  reason: "Called, and proved who they are",
  normalLogin: "on",
  recoveryEmail: "on",
  lifetimeDays: "7",
  ...more,
});
const overrides = () =>
  query<{ id: string; normal_login: boolean; revoked_at: Date | null; seconds: number }>(
    `select id, normal_login, revoked_at, extract(epoch from expires_at - created_at)::integer as seconds
     from private.recovery_overrides where email = $1`,
    [person.email],
  );
const stepPage = async (step: string) => `/admin/recovery/${(await overrides())[0]?.id}/${step}?${of(person.email)}`;

describe("a recovery override in the console", () => {
  test("creates a recovery override, sends its email without showing the link or code, and revokes it", async () => {
    expect((await admin.browser.get(page())).words).toContain("No overrides for this email");
    const { normalLogin: _, ...without } = filled({ lifetimeDays: "30" });
    expect((await admin.browser.post(makePage(), without)).location).toBe(`${page()}&done=new`);
    expect(await overrides()).toMatchObject([{ normal_login: false, seconds: 30 * 24 * 60 * 60 }]);

    expect((await admin.browser.post(await stepPage("send"), filled({ reason: "" }))).status).toBe(400);
    expect((await admin.browser.post(await stepPage("send"), filled())).location).toBe(`${page()}&done=send`);
    const mails = async () => (await mailsTo(person.email)).map(({ text }) => text).join();
    await expect.poll(mails, { timeout: 10_000 }).toContain("/auth/recovery?token=");
    const [, token = "none"] = /token=([\w-]{43})/.exec(await mails()) ?? [];
    const [, code = "none"] = /^(\d{6})$/m.exec(await mails()) ?? [];
    const shown = await admin.browser.get(page());
    expect(shown.words).toContain("Recovery email (issued)");
    expect(shown.text).not.toContain(token);
    expect(shown.text).not.toContain(code);

    expect((await admin.browser.post(await stepPage("revoke"), filled({ reason: "" }))).status).toBe(400);
    expect((await admin.browser.post(await stepPage("revoke"), filled())).location).toBe(`${page()}&done=revoke`);
    expect((await overrides())[0]?.revoked_at).not.toBeNull();
    expect((await admin.browser.post(await stepPage("revoke"), filled())).status).toBe(409);
  });

  test("creates a recovery override until first used, which ends with a sign-in and says so", async () => {
    const ban = () => query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [person.id]);
    await ban();
    const form = filled({ validity: "first_use", lifetimeDays: "" });
    expect((await admin.browser.post(makePage(), form)).location).toBe(`${page()}&done=new`);
    expect(await overrides()).toMatchObject([{ seconds: 30 * 24 * 60 * 60 }]);
    const unused = (await admin.browser.get(page())).words;
    expect(unused).toMatch(/Active · Reason: .* ends when it is used, or in 30 days/);
    expect(unused).toMatch(/The account is banned until \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC/);
    expect((await signIn(person)).location).toBe("/");
    const used = (await admin.browser.get(page())).words;
    expect(used).toMatch(/Used on \d+ \w+ \d{4}, \d\d:\d\d UTC · Reason:/);
    expect(used).toContain("Create override");
    expect(used).not.toContain("Revoke override");
    await ban();
    expect((await signIn(person)).location).toBeNull();
    expect((await admin.browser.post(await stepPage("send"), filled())).status).toBe(409);
  });

  test("says when a recovery override for some days was used, with Revoke next to it", async () => {
    await admin.browser.post(makePage(), filled());
    expect((await signIn(person)).location).toBe("/");
    const { words } = await admin.browser.get(page());
    expect(words).toMatch(/Active · Used on \d+ \w+ \d{4}, \d\d:\d\d UTC · Reason:/);
    expect(words).toContain("Revoke override");
    expect((await admin.browser.post(await stepPage("revoke"), filled())).location).toBe(`${page()}&done=revoke`);
    expect((await admin.browser.get(page())).words).toContain("Revoked · Used on");
  });

  test("shows the limits that lock an email, until when, and those that don't lock", async () => {
    expect((await admin.browser.get(page())).words).toContain("No sign-in limits apply to this email.");
    const attempt = JSON.stringify({ action: "password", email: person.email, address: newAddress() });
    for (let made = 0; made < 10; made += 1) await query("select private.begin_attempt($1)", [attempt]);
    const { words } = await admin.browser.get(page());
    expect(words).toMatch(
      /10 of 10 passwords in 15 minutes from one IP address, then refused until \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC/,
    );
    expect(words).toContain("10 of 20 passwords an hour, then a bot challenge not locked");
  });

  test.each([
    ["without a reason", { reason: " " }, "Enter a reason"],
    ["for 0 days", { lifetimeDays: "0" }, "at least 1 day"],
    ["for 31 days", { lifetimeDays: "31" }, "at most 30 days"],
    ["of an unknown validity", { validity: "ever" }, "Choose how long the override is valid"],
  ])("refuses to create a recovery override %s", async (_, more, words) => {
    const answer = await admin.browser.post(makePage(), filled(more));
    expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
    expect(await overrides()).toEqual([]);
  });

  test("creates a recovery override only once: a second admin sees that one is already active", async () => {
    await admin.browser.post(makePage(), filled());
    const late = await admin.browser.post(makePage(), filled());
    expect([late.status, late.words]).toEqual([
      409,
      expect.stringContaining("This email already has an active override"),
    ]);
  });

  test("refuses a recovery override for the admin's own email, from a non-admin, and from a session without a second factor", async () => {
    expect((await admin.browser.post(makePage(admin.email), filled())).status).toBe(403);
    expect((await admin.browser.get(page(admin.email))).words).toContain("You can’t recover your own account");
    const stranger = await enter(person);
    expect((await stranger.get(page())).status).toBe(403);
    expect((await stranger.post(makePage(), filled())).status).toBe(403);
    expect((await (await enter(admin)).post(makePage(), filled())).location).toMatch(/^\/mfa\?/);
    expect(await overrides()).toEqual([]);
  });
});

describe("the audit log", () => {
  test("filters the admin audit log on its page and in its CSV export, and escapes spreadsheet formulas in the export", async () => {
    const reason = '=HYPERLINK("x"), said they';
    await admin.browser.post(makePage(), filled({ reason }));
    const filters = new URLSearchParams({ target: person.email, action: "recovery." });
    const { words } = await admin.browser.get(`/admin/audit?${filters}`);
    expect(words).toContain("Created a recovery override");
    expect(words).toContain(person.email);
    expect((await admin.browser.get(`/admin/audit?target=${person.email}&action=app.`)).words).toContain(
      "No entries match",
    );
    const { status, text } = await admin.browser.get(`/admin/audit.csv?${filters}`);
    expect([status, text]).toEqual([200, expect.stringContaining(`"'=HYPERLINK(""x""), said they"`)]);
    expect(text.trimEnd().split("\r\n")).toHaveLength(2);
    const stranger = await enter(person);
    for (const path of ["/admin/audit", "/admin/audit.csv"]) expect((await stranger.get(path)).status).toBe(403);
    for (const days of ["from=2026-02-30", "to=2026-02-30", "from=0000-01-01", "to=9999-12-31"]) {
      expect([days, (await admin.browser.get(`/admin/audit.csv?${filters}&${days}`)).text]).toEqual([days, text]);
    }
  });

  test("shows each line of the audit log exactly once across its pages", async () => {
    const target = `test ${crypto.randomUUID()}`;
    await query(
      `insert into private.admin_audit_log (action, target, reason)
       select 'test.line', $1, 'line ' || n from generate_series(1, 51) n`,
      [target],
    );
    const first = await admin.browser.get(`/admin/audit?${new URLSearchParams({ target })}`);
    const older = /href="(\/admin\/audit\?[^"]*cursor=[^"]*)"/.exec(first.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await admin.browser.get(older);
    const read = `${first.words} ${second.words}`.match(/line \d+/g) ?? [];
    expect([read.length, new Set(read).size]).toEqual([51, 51]);
    expect((await admin.browser.get("/admin/audit?cursor=nothing")).status).toBe(400);
  });

  test("shows what a change was about, and appends its label, the target's name and a summary to the CSV", async () => {
    const [id, name] = [crypto.randomUUID(), `Harbour ${crypto.randomUUID()}`];
    await query(
      `insert into private.admin_audit_log (action, target, target_name, reason, before, after)
       values ('credits.grant', $1, $2, 'paid', $3, $4)`,
      [
        `workspace ${id}`,
        name,
        { balance: "10000" },
        { balance: "60000", credits: "50000", reference: "INV-7", secret_hash: "never-shown" },
      ],
    );
    const filters = new URLSearchParams({ target: name, action: "credits.grant" });
    const page = await admin.browser.get(`/admin/audit?${filters}`);
    const summary = "50,000 credits, balance 10,000 → 60,000, reference INV-7";
    expect(page.words).toContain(`Granted credits: ${name}`);
    expect(page.words).toContain(summary);
    expect(page.text).toMatch(/<option value="credits.grant" selected(="")?>/);
    const { text } = await admin.browser.get(`/admin/audit.csv?${filters}`);
    const [head, line] = text.trimEnd().split("\r\n");
    expect(head).toBe(
      "time,actor,action,target,reason,before,after,ip,request_id,action_label,target_name,summary,service_account_id",
    );
    expect(line).toContain(`,credits.grant,workspace ${id},paid,`);
    expect(line).toMatch(new RegExp(`,Granted credits,${name},"${summary}",$`));
    for (const shown of [page.text, text]) expect(shown).not.toContain("never-shown");
  });

  test("shows 50 entries with large states in less than 100 kB, and all of each state in the CSV", async () => {
    const target = `test ${crypto.randomUUID()}`;
    await query(
      `insert into private.admin_audit_log (action, target, reason, before, after, request_id, ip)
       select 'plan.edit', $1, repeat('r', 60), s.state, s.state || jsonb_build_object('field_1', repeat('y', 5000)), $1, '192.0.2.1'
       from generate_series(1, 50) n,
         (select jsonb_object_agg('field_' || f, repeat('x', 2000)) as state from generate_series(1, 20) f) s`,
      [target],
    );
    const filters = new URLSearchParams({ target });
    const { text } = await admin.browser.get(`/admin/audit?${filters}`);
    expect(text.match(/<details>/g)).toHaveLength(50);
    expect(Buffer.byteLength(text)).toBeLessThan(100_000);
    expect((await admin.browser.get(`/admin/audit.csv?${filters}`)).text).toContain("y".repeat(5000));
  });

  test("aborts the download of the audit log once the reader is no longer an admin", async () => {
    const target = `test ${crypto.randomUUID()}`;
    // Enough pages to exceed the buffers between this test and the database, so that the server reads most pages after
    // the admin right is revoked.
    const pages = 24;
    await query(
      `insert into private.admin_audit_log (action, target, reason, after)
       select 'test.line', $1, 'line ' || n, jsonb_build_object('text', repeat('x', 1000))
       from generate_series(1, $2::integer) n`,
      [target, pages * linesPerRead],
    );
    const leaver = await createConsoleAdmin();
    try {
      const { base } = readStack();
      const file = await fetch(new URL(`/admin/audit.csv?${new URLSearchParams({ target })}`, base), {
        headers: { cookie: leaver.browser.cookie(), ...visitorHeaders(newAddress()) },
      });
      expect(file.status).toBe(200);
      await query("delete from private.infrastructure_admins where user_id = $1", [leaver.id]);
      await expect(file.text()).rejects.toThrow();
    } finally {
      await query("delete from private.admin_audit_log where target = $1", [target]);
      await deletePerson(leaver);
    }
  });
});
