import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { enterApproved } from "../../scripts/test/approved-browser.ts";
import { createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { everyRoute } from "../../scripts/test/routes.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";
import { requireInfrastructureAdmin } from "./require-admin.ts";

const stack = readStack();
const run = promisify(execFile);
let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const command = async (...argv: string[]) =>
  (await run(process.execPath, ["scripts/operator/admin.ts", ...argv])).stdout;

/** Returns the result of the console's access check: an admin's id, or the response. */
async function knock(browser: Browser, path = "/admin"): Promise<unknown> {
  const context = await openContext({ ...stack, cookie: browser.cookie(), env: vaultSettings() });
  try {
    return (await requireInfrastructureAdmin(context, new Request(new URL(path, stack.base)))).id;
  } catch (refusal) {
    if (!(refusal instanceof Response)) throw refusal;
    return refusal.headers.get("location") ?? refusal.status;
  }
}

async function enroll() {
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  return app;
}

async function signInWithCode(): Promise<SignedInBrowser> {
  const app = await enroll();
  const browser = await enter(person);
  await browser.post("/mfa", { factorId: app.factorId, code: codeOf(app, 1) });
  return browser;
}

describe("access to the console", () => {
  test("admins with a second factor of their own can open the console until their role is revoked", async () => {
    const browser = await signInWithCode();
    expect(await knock(browser)).toBe(403);
    expect(await command("grant", person.email, "--reason", "on call")).toContain("may use the console now");
    expect(await knock(browser)).toBe(person.id);
    expect(await command("grant", person.email)).toContain("is an infrastructure admin already");
    expect(await command("list")).toContain(`${person.email}, admin since`);
    expect(await command("revoke", person.email)).toContain("may not use the console any more");
    expect(await knock(browser)).toBe(403);
    const log = await query(
      "select action, actor_id, reason from private.admin_audit_log where target_user_id = $1 order by created_at",
      [person.id],
    );
    expect(log).toEqual([
      { action: "admin.grant", actor_id: null, reason: "on call" },
      { action: "admin.revoke", actor_id: null, reason: "By the operator, on the command line" },
    ]);
    await expect(command("grant", `unknown-${person.email}`)).rejects.toMatchObject({
      stderr: expect.stringContaining("There is no account"),
    });
  });

  test("sends an admin without an authenticator to enrollment, and a visitor without a session to sign-in", async () => {
    await command("grant", person.email);
    expect(await knock(await enter(person), "/admin/users?q=a")).toBe("/mfa/enroll?returnUrl=%2Fadmin%2Fusers%3Fq%3Da");
    const stranger = { ...(await enter(person)), cookie: () => "" };
    expect(await knock(stranger)).toBe("/login?returnUrl=%2Fadmin");
  });

  test("the console asks for an authenticator code if the session has no code, only an old code, or only a phone approval", async () => {
    await command("grant", person.email);
    const app = await enroll();
    const waiting = await enter(person);
    expect(await knock(waiting)).toBe("/mfa?returnUrl=%2Fadmin");

    const approved = await enterApproved(person, app);
    expect(await approved.session()).toMatchObject({ mfa: { satisfied: true } });
    expect(await knock(approved)).toBe("/step-up?returnUrl=%2Fadmin");

    const prove = { factorId: app.factorId, code: codeOf(app, 1) };
    const old = await signedInLongAgo(person, { secondsAgo: 601, prove });
    expect(await knock(old)).toBe("/step-up?returnUrl=%2Fadmin");
  });
});

describe("a blocked address", () => {
  const block = (address: string) =>
    query(
      `insert into private.address_blocks (address, action, level, blocked_until)
       values (private.address_network($1), 'password', 1, now() + interval '15 minutes')`,
      [address],
    );
  const password = async (address: string) =>
    (await openBrowser(stack.base, { address }).post("/login", { email: person.email, password: "wrong" })).status;

  test("does not keep an admin out of the console whose session has proved the second factor", async () => {
    const [app, address] = [await enroll(), newAddress()];
    await command("grant", person.email);
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const old = await signedInLongAgo(person, { secondsAgo: 601, prove });
    const browser = openBrowser(stack.base, { address, cookie: old.cookie() });
    await block(address);
    expect((await browser.get("/admin")).location).toBe("/step-up?returnUrl=%2Fadmin");
    const confirm = () => browser.post("/step-up?returnUrl=%2Fadmin", { factorId: app.factorId, code: codeOf(app, 1) });
    await command("revoke", person.email);
    expect((await confirm()).status).toBe(429);
    await command("grant", person.email);
    expect((await confirm()).location).toBe("/admin");
    expect((await browser.get("/admin")).status).toBe(200);
    expect(await password(address)).toBe(429);
  });

  test("is unblocked by the operator, by the address or by the email of an account that was used there", async () => {
    const address = newAddress();
    const reason = `The office ${crypto.randomUUID()}`;
    await block(address);
    expect(await password(address)).toBe(429);
    expect(await command("unblock", address, "--reason", reason)).toContain("not blocked any more");
    expect(await password(address)).toBe(400);
    expect(await command("unblock", address)).toContain(`${address} is not blocked`);
    await query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', $2)", [
      person.id,
      address,
    ]);
    await block(address);
    expect(await command("unblock", person.email, "--reason", reason)).toContain("not blocked any more");
    expect(await password(address)).toBe(400);
    expect(await command("unblock", person.email)).toContain("No address from which");
    await expect(command("unblock", `unknown-${person.email}`)).rejects.toMatchObject({
      stderr: expect.stringContaining("There is no account"),
    });
    const log = await query(
      "select action, actor_id, request_id from private.admin_audit_log where reason = $1 order by created_at",
      [reason],
    );
    const line = { action: "address_block.lift", actor_id: null, request_id: null };
    expect(log).toEqual([line, line]);
  });
});

describe("the role finance", () => {
  const consoleRoutes = everyRoute.filter(({ route }) => /^admin($|[/.])/.test(route));
  const isOfMoney = ({ route }: { route: string }) => /^admin\/(books|spending)($|[/.])/.test(route);

  test("opens the pages and files of the platform's money, and no other route of the console", async () => {
    const finance = await createConsoleAdmin({ role: "finance" });
    const { browser } = finance;
    const others = consoleRoutes.filter((route) => !isOfMoney(route) && route.route !== "admin");
    expect(others.length).toBeGreaterThan(30);
    for (const { route, path } of others) {
      expect([route, (await browser.get(path)).status]).toEqual([route, 403]);
      // A route without an action answers 405.
      expect([route, [403, 405]]).toEqual([route, expect.arrayContaining([(await browser.post(path, {})).status])]);
    }
    for (const { route, path } of consoleRoutes.filter(isOfMoney)) {
      const { status, location } = await browser.get(path);
      // Records with random ids do not exist. Some routes redirect to another page of the books.
      if (location === null) expect([route, [200, 404]]).toEqual([route, expect.arrayContaining([status])]);
      else expect([route, location]).toEqual([route, expect.stringMatching(/^\/admin\/(books|spending)[/?#]/)]);
    }
    const first = await browser.get("/admin");
    expect([first.status, first.location]).toEqual([302, "/admin/books"]);
    expect((await browser.post("/admin/books/invoices/new", {})).status).not.toBe(403);
    await deletePerson(finance);
  });

  test("is granted and withdrawn by the operator, and opens nothing once it is withdrawn", async () => {
    const browser = await signInWithCode();
    const visit = async (path: string) => (await browser.get(path)).status;
    expect(await visit("/admin/books")).toBe(403);
    expect(await command("grant", person.email, "--role", "finance")).toContain("may use the platform's books now");
    expect(await command("list")).toContain(`${person.email}, finance since`);
    const { text } = await browser.get("/admin/books");
    const links = [...text.matchAll(/href="(\/admin[^"?]*)/g)].map(([, path]) => path);
    expect(links).toContain("/admin/books");
    expect(links.filter((path) => !/^\/admin\/(books|spending)/.test(path ?? ""))).toEqual([]);
    expect(await knock(browser)).toBe(403);
    await command("revoke", person.email);
    expect(await visit("/admin/books")).toBe(403);
  });

  test("requires an authenticator, and its code of the last ten minutes", async () => {
    await command("grant", person.email, "--role", "finance");
    const unenrolled = await (await enter(person)).get("/admin/books");
    expect(unenrolled.location).toBe("/mfa/enroll?returnUrl=%2Fadmin%2Fbooks");
    const app = await enroll();
    const approved = await (await enterApproved(person, app)).get("/admin/books");
    expect(approved.location).toBe("/step-up?returnUrl=%2Fadmin%2Fbooks");
    const prove = { factorId: app.factorId, code: codeOf(app, 1) };
    const old = await signedInLongAgo(person, { secondsAgo: 601, prove });
    expect((await old.get("/admin/books")).location).toBe("/step-up?returnUrl=%2Fadmin%2Fbooks");
  });
});
