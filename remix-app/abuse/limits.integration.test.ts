import { createClient } from "@supabase/supabase-js";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deletePerson, insertAccount, passMailPause } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";

const { base, supabase } = readStack();
const options = { auth: { persistSession: false, autoRefreshToken: false } };
const { admin } = createClient(supabase.url, supabase.secretKey, options).auth;
const database = new Client({ connectionString: supabase.dbUrl });
const password = "correct horse battery";
let email: string;
let userId: string;
let address: string;

beforeAll(() => database.connect());
afterAll(() => database.end());
beforeEach(async () => {
  email = `${crypto.randomUUID().slice(0, 8)}@limits.gatehouse.test`;
  address = newAddress();
  userId = await insertAccount({ email, password });
  return () => deletePerson({ id: userId });
});

async function post(path: string, fields: Record<string, string>, from = address) {
  const body = new URLSearchParams(fields);
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: visitorHeaders(from),
    body,
    redirect: "manual",
  });
  const retryAfter = response.headers.get("retry-after");
  return {
    status: response.status,
    retryAfter,
    location: response.headers.get("location"),
    page: await response.text(),
  };
}

/** Uses up attempts directly in the database, without going through the pages. */
async function exhaust(attempt: { action: string; email?: string }, times: number): Promise<void> {
  for (let made = 0; made < times; made += 1)
    await database.query("select private.begin_attempt($1)", [JSON.stringify({ address, ...attempt })]);
}

const signIn = (typed: string, from = address) => post("/login", { email, password: typed }, from);

describe("sign-in limits", () => {
  test("refuses even the right password after ten wrong ones from one address", async () => {
    await exhaust({ action: "password", email }, 9);
    expect((await signIn("wrong")).status).toBe(400);
    const refused = await signIn(password);
    expect(refused).toMatchObject({ status: 429, location: null });
    expect(Number(refused.retryAfter)).toBeGreaterThan(60);
    expect(refused.page).toMatch(/Too many attempts\. Try again in (\d\d seconds|2 minutes)\./);
    expect(refused.page).toContain(`value="${email}"`);
    expect(await signIn(password, newAddress())).toMatchObject({ status: 302 });
  });

  test("a successful sign-in clears the count of earlier failures", async () => {
    await exhaust({ action: "password", email }, 9);
    expect((await signIn(password)).status).toBe(302);
    expect((await signIn("wrong")).status).toBe(400);
    expect((await signIn(password)).status).toBe(302);
  });

  test("password attempts from many addresses slow down an account's sign-in, but don't block it", async () => {
    for (let made = 0; made < 20; made += 1)
      await database.query("select private.begin_attempt($1)", [
        JSON.stringify({ action: "password", email, address: newAddress() }),
      ]);
    const began = performance.now();
    expect((await signIn(password)).status).toBe(302);
    expect(performance.now() - began).toBeGreaterThan(2_000);
  });

  test("sign-in still works after others sent wrong passwords directly to the identity backend", async () => {
    const direct = createClient(supabase.url, supabase.publishableKey, options).auth;
    const codes: (string | undefined)[] = [];
    for (let made = 0; made < 11; made += 1) {
      const { error } = await direct.signInWithPassword({ email, password: "wrong" });
      codes.push(error?.message);
    }
    expect(new Set(codes.slice(0, 10)).size).toBe(1);
    expect(codes.at(-1)).toBe("Too many attempts. Wait a few minutes, then try again.");
    const { data } = await direct.signInWithPassword({ email, password });
    expect(data.session).toBeNull();
    expect((await signIn(password)).status).toBe(302);
    expect((await signIn("wrong")).page).toContain("don’t match an account");
  });

  test("checks at most ten of many concurrent wrong passwords", async () => {
    const answers = await callAtOnce(() => signIn("wrong"));
    const counts = (status: number) => answers.filter((answer) => answer.status === status).length;
    expect([counts(400), counts(429)]).toEqual([10, atOnce - 10]);
  });
});

describe("a form that sends an email", () => {
  test.each([
    ["/forgot-password", "mail", 5],
    ["/signup/check-mail", "mail", 5],
    ["/login/code", "mail", 5],
    ["/signup", "sign_up", 5],
  ])("%s accepts five requests in a row per IP address and email", async (path, action, limit) => {
    for (const typed of [email, `unknown-${email}`]) {
      await exhaust({ action, email: typed }, limit - 1);
      expect([200, 302]).toContain((await post(path, { email: typed, password })).status);
      const refused = await post(path, { email: typed, password });
      expect(refused).toMatchObject({ status: 429, retryAfter: expect.any(String) });
      expect(refused.page).toContain(`value="${typed}"`);
      expect(refused.page).not.toContain(password);
    }
  });

  test("a sign-up doesn't count as a guess of the password", async () => {
    const newcomer = `new-${email}`;
    for (const typed of [password, "another password"]) {
      await post("/signup", { email: newcomer, password: typed });
      await passMailPause(newcomer);
    }
    const { rows } = await database.query(
      "select from private.rate_limits where subject in (select subject from private.attempt_buckets('direct_password', $1, private.address_network($2)))",
      [`email:${newcomer}`, address],
    );
    expect(rows).toEqual([]);
    const { data } = await admin.listUsers({ perPage: 1_000 });
    const created = data.users.find((user) => user.email === newcomer);
    if (created) await admin.deleteUser(created.id);
  });
});

test("answers 429 to an IP address that has opened 60 links from emails", async () => {
  const open = () => post("/auth/confirm", { token_hash: "a".repeat(56), type: "signup" });
  await exhaust({ action: "code" }, 59);
  expect((await open()).status).toBe(410);
  const refused = await open();
  expect(refused).toMatchObject({ status: 429, retryAfter: expect.any(String) });
  expect(refused.page).toContain("Confirm your email");
});

test("refuses a sign-in from a blocked network but not from another one", async () => {
  await database.query(
    "insert into private.address_blocks (address, action, level, blocked_until) values (private.address_network($1), 'password', 1, now() + interval '15 minutes')",
    [address],
  );
  const refused = await signIn(password);
  expect(refused.status).toBe(429);
  expect(refused.page).toContain("Too many failed attempts from your network. Try again in 15 minutes.");
  expect(await signIn(password, newAddress())).toMatchObject({ status: 302 });
});
