import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query, signIn } from "../../scripts/test/people.ts";
import { newAddress } from "../testing/visitor.ts";

let admin: ConsoleAdmin;
let person: Person;
let workspace: { id: string; name: string };

beforeAll(async () => {
  [admin, person] = await Promise.all([createConsoleAdmin(), createPerson()]);
  const [own] = await query<{ id: string; name: string }>(
    "select id, name from public.workspaces where personal_user_id = $1",
    [person.id],
  );
  workspace = own ?? { id: "", name: "" };
});
afterAll(() => Promise.all([admin, person].map(deletePerson)));

const reason = "Which team is it?";
const requestedAtOn = (text: string) => /name="requestedAt" value="([^"]*)"/.exec(text)?.[1] ?? "";

describe("a workspace's key approval", () => {
  test("key approval can be requested, withdrawn, declined with a reason, requested again and granted", async () => {
    const owner = await enter(person);
    const keys = `/workspaces/${workspace.id}/ai/keys`;
    const ask = (note: string) => owner.post(`${keys}/approval`, { intent: "request", note });
    expect((await owner.get(keys)).words).toContain("What are the keys for?");

    const long = await ask("n".repeat(501));
    expect([long.status, long.words]).toEqual([400, expect.stringContaining("Use at most 500 characters")]);
    expect((await owner.post(`${keys}/approval`, { intent: "destroy" })).status).toBe(400);
    expect((await ask(`${"n".repeat(498)}\r\nn`)).location).toBe(keys);
    const waiting = await owner.get(keys);
    expect(waiting.words).toMatch(/Requested on .* UTC by/);
    const withdraw = { intent: "withdraw", requestedAt: requestedAtOn(waiting.text) };
    expect((await owner.post(`${keys}/approval`, withdraw)).location).toBe(keys);
    expect((await owner.get(keys)).words).toContain("What are the keys for?");

    await ask("Nightly summaries");
    const queue = await admin.browser.get("/admin/approvals");
    for (const shown of ["Nightly summaries", person.email]) expect(queue.words).toContain(shown);
    const overview = await admin.browser.get("/admin");
    expect(overview.words).toMatch(/workspaces? waits? for approval to create keys/);
    expect(overview.text).toMatch(/>Approvals<[^,]*, [\d,]+\+? needs? attention</);
    const decline = `/admin/workspaces/${workspace.id}/decline`;
    const form = { reason };
    const stale = await admin.browser.post(decline, { ...form, requestedAt: withdraw.requestedAt });
    expect([stale.status, stale.words]).toEqual([409, expect.stringContaining("was withdrawn, answered or replaced")]);
    const requestedAt = requestedAtOn((await admin.browser.get(decline)).text);
    expect((await admin.browser.post(decline, { reason: "", requestedAt })).status).toBe(400);
    expect((await owner.post(decline, { ...form, requestedAt })).status).toBe(403);
    const declined = await admin.browser.post(decline, { ...form, requestedAt });
    expect(declined.location).toBe("/admin/approvals?done=decline");
    expect((await admin.browser.get("/admin/approvals?done=decline")).words).toContain("The request is declined.");
    expect((await owner.get(keys)).words).toContain(`Reason: ${reason}`);

    const subjects = async (email: string) => (await mailsTo(email)).map(({ subject }) => subject);
    const patience = { timeout: 20_000 };
    await expect.poll(() => subjects(admin.email), patience).toContain("A workspace requests approval for API keys");
    await expect.poll(() => subjects(person.email), patience).toContain("The request for API keys was declined");

    await ask("The night team");
    const approve = `/admin/workspaces/${workspace.id}/approve`;
    expect((await admin.browser.get(approve)).words).toContain("Purpose: The night team");
    expect((await admin.browser.post(approve, form)).location).toContain("done=approve");
    const approved = await owner.get(keys);
    expect(approved.text).toContain(`${keys}/new`);
    expect(approved.words).not.toContain("Request approval");
    expect((await owner.get(`${keys}/approval`)).words).toContain("This workspace is approved");
  });

  test("refuses a request for key approval from a person outside the workspace", async () => {
    const stranger = await createPerson();
    try {
      const { status } = await (await enter(stranger)).post(`/workspaces/${workspace.id}/ai/keys/approval`, {
        intent: "request",
        note: "",
      });
      expect(status).toBe(404);
    } finally {
      await deletePerson(stranger);
    }
  });
});

describe("the console's accounts", () => {
  test("lists accounts newest first, with their badges, if the search is empty", async () => {
    const newest = await createPerson();
    try {
      await query("update auth.users set email_confirmed_at = null where id = $1", [newest.id]);
      await query("update public.profiles set created_at = now() + interval '1 minute' where id = $1", [newest.id]);
      const { text, words } = await admin.browser.get("/admin/accounts");
      expect(/href="\/admin\/users\/([^"]*)"/.exec(text)?.[1]).toBe(newest.id);
      expect(words).toContain("Email not confirmed");
    } finally {
      await deletePerson(newest);
    }
    expect((await admin.browser.get("/admin/accounts?cursor=nonsense")).status).toBe(400);
  });

  test("an admin can sign any account out everywhere, except their own", async () => {
    await signIn(person);
    const page = `/admin/users/${person.id}`;
    const form = { reason: "Stolen phone", confirmation: person.email };
    expect((await admin.browser.get(page)).text).toContain(`${page}/sign-out`);
    expect((await admin.browser.post(`${page}/sign-out`, { ...form, confirmation: "yes" })).status).toBe(400);
    expect((await (await enter(person)).post(`${page}/sign-out`, form)).status).toBe(403);
    const done = await admin.browser.post(`${page}/sign-out`, form);
    expect(done.location).toBe(`${page}?done=sign-out`);
    const { words } = await admin.browser.get(done.location ?? "");
    for (const shown of ["signed out of every device", "Signed an account out everywhere", "Stolen phone"]) {
      expect(words).toContain(shown);
    }
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toEqual([]);
    const own = `/admin/users/${admin.id}/sign-out`;
    expect((await admin.browser.get(own)).text).not.toContain('name="confirmation"');
    expect((await admin.browser.post(own, { ...form, confirmation: admin.email })).status).toBe(403);
  });

  test("shows which of an account's recent IP addresses are blocked, and lifts a block with a reason", async () => {
    const address = newAddress();
    await query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', $2)", [
      person.id,
      address,
    ]);
    const [block] = await query<{ id: string; network: string }>(
      `insert into private.address_blocks (address, action, level, blocked_until)
       values (private.address_network($1), 'password', 1, now() + interval '15 minutes') returning id, address::text as network`,
      [address],
    );
    const lift = `/admin/address-blocks/${block?.id}/lift`;
    try {
      expect((await admin.browser.get(`/admin/users/${person.id}`)).text).toContain(lift);
      expect((await admin.browser.get("/admin/address-blocks")).text).toContain(lift);
      expect((await admin.browser.get(`/admin/address-blocks?q=${address}`)).text).toContain(lift);
      expect((await admin.browser.get("/admin/address-blocks?q=2001")).words).toContain("Enter a whole IP address");
      const form = { reason: "An office" };
      expect((await admin.browser.post(lift, { reason: "" })).status).toBe(400);
      const done = await admin.browser.post(lift, form);
      expect(done.status).toBe(303);
      expect((await admin.browser.get(done.location ?? "")).words).toContain("Block lifted.");
      expect((await admin.browser.post(lift, form)).status).toBe(409);
      expect((await admin.browser.get("/admin/address-blocks/none/lift")).status).toBe(404);
    } finally {
      await query("delete from private.address_blocks where id = $1", [block?.id]);
    }
  });
});
