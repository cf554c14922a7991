import { Authenticator, type Quirks } from "@gatehousehq/local-stack/contract/support/authenticator";
import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { cookieOf, vaultSettings } from "../../scripts/test/keep-session.ts";
import { deletePerson, insertAccount, query } from "../../scripts/test/people.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { maxPasskeyNameBytes, maxPasskeys } from "./limits.ts";
import { startRegistration } from "./manage.ts";

const { base, supabase } = readStack();
const service = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const password = "correct horse battery";
const quirks: Quirks = { origin: base, rpId: new URL(base).hostname };
const registration = "/settings/security/passkeys";
const signIn = "/login/passkey";
const userIds: string[] = [];

let owner: { id: string; email: string; browser: Browser };

beforeEach(async () => {
  owner = await newOwner();
});
afterEach(async () => {
  await Promise.all(userIds.splice(0).map((id) => deletePerson({ id })));
});

/** Creates a person with an account and signs them in. */
async function newOwner() {
  const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const id = await insertAccount({ email, password });
  userIds.push(id);
  const browser = openBrowser(base, { cookie: await cookieOf({ email, password }) });
  return { id, email, browser };
}

const stranger = () => openBrowser(base);

async function creationOptions(browser: Browser) {
  const answer = await browser.postJson(`${registration}/options`, {});
  expect(answer.status, answer.text).toBe(200);
  return JSON.parse(answer.text);
}

async function register(browser: Browser, authenticator = new Authenticator()) {
  const { challengeId, options } = await creationOptions(browser);
  const credential = authenticator.create(options, quirks);
  return { authenticator, ...(await browser.postJson(registration, { challengeId, credential })) };
}

async function requestOptions(browser: Browser) {
  const answer = await browser.postJson(`${signIn}/options`, {});
  expect(answer.status, answer.text).toBe(200);
  return JSON.parse(answer.text);
}

/** Answers a fresh challenge as a browser would. */
async function answerOf(browser: Browser, { authenticator, ...more }: Quirks & { authenticator: Authenticator }) {
  const { challengeId, options } = await requestOptions(browser);
  return { challengeId, credential: authenticator.get(options, { ...quirks, ...more }) };
}

async function passkeys(userId: string): Promise<{ id: string; name: string }[]> {
  const { data, error } = await service.schema("private").rpc("list_passkeys", { user_id: userId });
  if (error) throw error;
  return data;
}

async function events(userId: string) {
  const { data, error } = await service.from("security_events").select("kind, method").eq("user_id", userId);
  if (error) throw error;
  return data;
}

const expectMail = (subject: string) =>
  expect
    .poll(async () => (await mailsTo(owner.email)).map((mail) => mail.subject), { timeout: 10_000 })
    .toContain(subject);

const sessionOf = async (browser: Browser) => JSON.parse((await browser.get("/api/v1/auth/session")).text);

describe("passkey registration and sign-in", () => {
  test("the options for registering a passkey contain the configured product name", async () => {
    const env = { ...vaultSettings(), BRAND_NAME: "Acme & Co" };
    const context = await openContext({ base, supabase, cookie: owner.browser.cookie(), env });
    const { options } = await startRegistration(context);
    expect(options.rp).toEqual({ id: new URL(base).hostname, name: "Acme & Co" });
  });

  test("registering a passkey notifies the owner, and signing in with it continues to the destination", async () => {
    const { authenticator, status, text } = await register(owner.browser);
    expect([status, JSON.parse(text)]).toEqual([200, { redirectTo: "/settings/security#passkeys" }]);
    expect(await passkeys(owner.id)).toMatchObject([{ name: "Passkey" }]);
    await expectMail("A passkey was added to your Gatehouse account");
    expect((await owner.browser.get("/settings/security")).text).toContain(authenticator.credentialId);

    const browser = stranger();
    const answer = await answerOf(browser, { authenticator });
    const signedIn = await browser.postJson(signIn, { ...answer, returnUrl: "/workspaces?sort=name" });
    expect([signedIn.status, JSON.parse(signedIn.text)]).toEqual([200, { redirectTo: "/workspaces?sort=name" }]);
    expect(await sessionOf(browser)).toMatchObject({ user: { email: owner.email }, aal: "aal1" });
    expect(await events(owner.id)).toEqual(
      expect.arrayContaining([
        { kind: "passkey_added", method: null },
        { kind: "sign_in", method: "passkey" },
      ]),
    );
    expect((await events(owner.id)).filter(({ kind }) => kind === "passkey_added")).toHaveLength(1);
    expect(await query("select from private.unconfirmed_additions where user_id = $1", [owner.id])).toEqual([]);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])(
    "a passkey sign-in does not redirect to %s",
    async (returnUrl) => {
      const { authenticator } = await register(owner.browser);
      const browser = stranger();
      const answer = await browser.postJson(signIn, { ...(await answerOf(browser, { authenticator })), returnUrl });
      expect(JSON.parse(answer.text)).toEqual({ redirectTo: "/" });
    },
  );

  test("a passkey sign-in is refused in a browser that already has 10 accounts, and shows the list of those accounts", async () => {
    const { authenticator } = await register(owner.browser);
    const { browser } = await newOwner();
    const deviceId = /gh_device=([0-9a-f-]{36})/.exec(browser.cookie())?.[1];
    const others = Array.from({ length: 9 }, () => crypto.randomUUID());
    await query(
      "insert into auth.users (id, email) select id, id || '@full.gatehouse.test' from unnest($1::uuid[]) id",
      [others],
    );
    userIds.push(...others);
    await query(
      `insert into private.account_vault_entries (device_id, user_id, session_id)
       select $1, id, gen_random_uuid() from unnest($2::uuid[]) id`,
      [deviceId, others],
    );
    const { status, text } = await browser.postJson(signIn, await answerOf(browser, { authenticator }));
    expect([status, JSON.parse(text)]).toEqual([200, { redirectTo: "/accounts?full" }]);
    const sessions = await query("select from auth.sessions where user_id = $1", [owner.id]);
    expect(sessions).toHaveLength(1);
  });

  test("a passkey challenge can be used for only one sign-in, even with concurrent attempts", async () => {
    const { authenticator } = await register(owner.browser);
    const answer = await answerOf(stranger(), { authenticator });
    const answers = await callAtOnce(() => stranger().postJson(signIn, answer));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: atOnce - 1 }, () => 410)]);
    expect(JSON.parse((await stranger().postJson(signIn, answer)).text)).toMatchObject({ code: "GONE" });
  });

  test("a passkey challenge can be used to register only one passkey, even with concurrent attempts", async () => {
    const { challengeId, options } = await creationOptions(owner.browser);
    const body = { challengeId, credential: new Authenticator().create(options, quirks) };
    const answers = await callAtOnce(() => owner.browser.postJson(registration, body));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: atOnce - 1 }, () => 410)]);
    expect(await passkeys(owner.id)).toHaveLength(1);
  });

  test("an unknown passkey gets a different answer from one that fails verification", async () => {
    const { authenticator } = await register(owner.browser);
    const [passkey] = await passkeys(owner.id);
    const browser = stranger();
    const wrong = await browser.postJson(signIn, await answerOf(browser, { authenticator, challenge: "AAAA" }));
    expect([wrong.status, JSON.parse(wrong.text).unknownPasskey]).toEqual([400, undefined]);
    const nameless = await browser.postJson(signIn, await answerOf(browser, { authenticator, userHandle: null }));
    expect([nameless.status, JSON.parse(nameless.text).unknownPasskey]).toEqual([400, undefined]);

    await register(owner.browser);
    expect((await owner.browser.post(`${registration}/${passkey?.id}/delete`, {})).location).toBe(
      "/settings/security#passkeys",
    );
    const gone = await browser.postJson(signIn, await answerOf(browser, { authenticator }));
    expect([gone.status, JSON.parse(gone.text)]).toMatchObject([400, { unknownPasskey: true }]);
    expect(browser.cookie()).not.toContain("auth-token");
  });

  test("a banned account's passkey does not sign in", async () => {
    const { authenticator } = await register(owner.browser);
    await service.auth.admin.updateUserById(owner.id, { ban_duration: "1h" });
    const browser = stranger();
    const answer = await browser.postJson(signIn, await answerOf(browser, { authenticator }));
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([403, "FORBIDDEN"]);
  });

  test("a passkey sign-in replaces and ends the browser's previous session", async () => {
    const { authenticator } = await register(owner.browser);
    const other = await newOwner();
    const before = other.browser.cookie();
    const answer = await answerOf(other.browser, { authenticator });
    expect((await other.browser.postJson(signIn, answer)).status).toBe(200);
    expect(await sessionOf(other.browser)).toMatchObject({ user: { email: owner.email } });
    const replay = await fetch(new URL("/api/v1/auth/session", base), { headers: { cookie: before } });
    expect(replay.status).toBe(401);
  });
});

describe("registering a passkey", () => {
  test("a passkey registration cannot be completed with another account's challenge", async () => {
    const other = await newOwner();
    const { challengeId, options } = await creationOptions(other.browser);
    const credential = new Authenticator().create(options, quirks);
    const answer = await owner.browser.postJson(registration, { challengeId, credential });
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([410, "GONE"]);
    expect(await passkeys(owner.id)).toEqual([]);
    expect((await other.browser.postJson(registration, { challengeId, credential })).status).toBe(200);
  });

  test("the challenge of a passkey registration cannot complete a sign-in, and the challenge of a sign-in cannot complete a registration", async () => {
    const { authenticator } = await register(owner.browser);
    const asked = await requestOptions(owner.browser);
    const credential = new Authenticator().create({ ...asked.options, user: { id: "AAAA" } }, quirks);
    const kept = await owner.browser.postJson(registration, { challengeId: asked.challengeId, credential });
    expect(kept.status).toBe(410);
    const { challengeId, options } = await creationOptions(owner.browser);
    const answer = { challengeId, credential: authenticator.get(options, quirks) };
    expect((await stranger().postJson(signIn, answer)).status).toBe(410);
  });

  test("registering a passkey that is already added returns a message saying so", async () => {
    const { authenticator } = await register(owner.browser);
    const { status, text } = await register(owner.browser, authenticator);
    expect([status, JSON.parse(text)]).toMatchObject([409, { detail: expect.stringContaining("already added") }]);
    const other = await newOwner();
    expect((await register(other.browser, authenticator)).status).toBe(409);
  });

  test(`registering a passkey succeeds at most ${maxPasskeys} times per account`, async () => {
    for (let count = 0; count < maxPasskeys; count += 1) expect((await register(owner.browser)).status).toBe(200);
    const refused = await owner.browser.postJson(`${registration}/options`, {});
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([409, "CONFLICT"]);
    expect((await owner.browser.get(`${registration}/new`)).text).toContain("the maximum");
    expect((await owner.browser.get("/settings/security")).text).not.toContain(`href="${registration}/new"`);
  });

  test("registering a passkey requires a session", async () => {
    for (const path of [registration, `${registration}/options`]) {
      const { status, location } = await stranger().postJson(path, {});
      expect([status, location]).toEqual([302, expect.stringMatching(/^\/login/)]);
    }
    expect((await stranger().get(`${registration}/new`)).location).toContain("/login?returnUrl=");
  });
});

describe("a passkey's name", () => {
  const rename = async (name: string, { browser = owner.browser } = {}) => {
    const [passkey] = await passkeys(owner.id);
    return browser.post(`${registration}/${passkey?.id}/rename`, { name });
  };
  beforeEach(async () => {
    await register(owner.browser);
  });

  test("a passkey's name can be changed by its owner with a form", async () => {
    expect((await rename("  Ada’s laptop  ")).location).toBe("/settings/security#passkeys");
    expect(await passkeys(owner.id)).toMatchObject([{ name: "Ada’s laptop" }]);
    expect(await events(owner.id)).toContainEqual({ kind: "passkey_renamed", method: null });
  });

  test(`a passkey's name can have at most ${maxPasskeyNameBytes} bytes`, async () => {
    expect((await rename(`${"é".repeat(60)}x`)).status).toBe(400);
    expect((await rename("é".repeat(60))).status).toBe(302);
    expect((await rename("x".repeat(maxPasskeyNameBytes + 1))).status).toBe(400);
    expect((await rename("x".repeat(maxPasskeyNameBytes))).status).toBe(302);
  });

  test.each(["", "   ", "two\nlines", "bell\u0007"])("rejects %j as a passkey's name", async (name) => {
    const { status, text } = await rename(name);
    expect(status).toBe(400);
    expect(text).toContain('aria-invalid="true"');
    expect(await passkeys(owner.id)).toMatchObject([{ name: "Passkey" }]);
  });

  test("a passkey's name cannot be changed by another account", async () => {
    const other = await newOwner();
    expect((await rename("Mine", { browser: other.browser })).status).toBe(404);
    expect((await rename("Mine", { browser: stranger() })).location).toContain("/login");
    for (const id of ["nothing", "..%2F..%2Fuser", crypto.randomUUID()]) {
      expect((await owner.browser.post(`${registration}/${id}/rename`, { name: "x" })).status).toBe(404);
    }
    expect(await passkeys(owner.id)).toMatchObject([{ name: "Passkey" }]);
  });
});

describe("deleting a passkey", () => {
  const remove = async ({ browser = owner.browser } = {}) => {
    const [passkey] = await passkeys(owner.id);
    return browser.post(`${registration}/${passkey?.id}/delete`, {});
  };

  test("deleting a passkey requires confirmation and notifies the owner", async () => {
    await register(owner.browser);
    const [passkey] = await passkeys(owner.id);
    expect((await owner.browser.get(`${registration}/${passkey?.id}/delete`)).text).toContain("Delete passkey");
    expect(await passkeys(owner.id)).toHaveLength(1);
    expect((await remove()).location).toBe("/settings/security#passkeys");
    expect(await passkeys(owner.id)).toEqual([]);
    await expectMail("A passkey was removed from your Gatehouse account");
    expect((await owner.browser.post(`${registration}/${passkey?.id}/delete`, {})).status).toBe(404);
  });

  test("deleting another account's passkey is refused", async () => {
    await register(owner.browser);
    const other = await newOwner();
    expect((await remove({ browser: other.browser })).status).toBe(404);
    expect(await passkeys(owner.id)).toHaveLength(1);
  });
});

describe("invalid passkey requests", () => {
  const paths = [signIn, `${signIn}/options`, registration, `${registration}/options`];
  const send = (path: string, init: RequestInit & { headers: Record<string, string> }) =>
    fetch(new URL(path, base), { method: "POST", redirect: "manual", body: "{}", ...init });
  const json = { "content-type": "application/json" };

  test.each(paths)("a passkey request from another origin is refused at %s", async (path) => {
    const cookie = owner.browser.cookie();
    const origins: Record<string, string>[] = [
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "none" },
      { origin: "https://evil.example" },
      { origin: "null" },
      {},
    ];
    for (const headers of origins) {
      const answer = await send(path, { headers: { ...json, cookie, ...headers } });
      expect([answer.status, await answer.json()]).toMatchObject([403, { code: "CSRF_REJECTED" }]);
    }
  });

  test.each(paths)("a passkey request with a bearer token is refused at %s", async (path) => {
    const authorization = "Bearer aaaa.bbbb.cccc";
    expect((await send(path, { headers: { ...json, authorization } })).status).toBe(403);
  });

  test.each(paths)("a passkey request with the wrong method is refused at %s", async (path) => {
    const answer = await fetch(new URL(path, base), { method: "PUT" });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test.each(paths)("a passkey request with the wrong content type is refused at %s", async (path) => {
    const cookie = owner.browser.cookie();
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]) {
      const headers = { "sec-fetch-site": "same-origin", cookie, "content-type": type };
      expect((await send(path, { headers })).status).toBe(415);
    }
  });

  test.each(paths)("a passkey request with too large a body is refused at %s", async (path) => {
    const cookie = owner.browser.cookie();
    const headers = { ...json, "sec-fetch-site": "same-origin", cookie };
    expect((await send(path, { headers, body: " ".repeat(65_537) })).status).toBe(413);
    expect((await send(path, { headers, body: `${" ".repeat(65_534)}{}` })).status).not.toBe(413);
  });

  test("a passkey request with an invalid body gets 400 and does not use up the challenge", async () => {
    const { authenticator } = await register(owner.browser);
    const whole = await answerOf(owner.browser, { authenticator });
    const { credential } = whole;
    const bodies: unknown[] = [
      null,
      [],
      "text",
      {},
      { ...whole, challengeId: "1" },
      { ...whole, challengeId: "../user" },
      { ...whole, credential: null },
      { ...whole, credential: { ...credential, id: "" } },
      { ...whole, credential: { ...credential, id: "a b" } },
      { ...whole, credential: { ...credential, id: "a".repeat(1_365) } },
      { ...whole, credential: { ...credential, type: "password" } },
      { ...whole, credential: { ...credential, response: {} } },
      { ...whole, credential: { ...credential, response: { ...credential.response, signature: 1 } } },
      { ...whole, returnUrl: 7 },
    ];
    for (const body of bodies) {
      const statuses = [
        (await owner.browser.postJson(signIn, body)).status,
        (await owner.browser.postJson(registration, body)).status,
      ];
      expect(statuses, JSON.stringify(body)?.slice(0, 200)).toEqual([400, 400]);
    }
    // The invalid bodies have not used up the challenge.
    expect((await owner.browser.postJson(signIn, whole)).status).toBe(200);
  });
});

test("the well-known URL for password managers names the pages to add and manage passkeys", async () => {
  const answer = await fetch(new URL("/.well-known/passkey-endpoints", base), { redirect: "manual" });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(await answer.json()).toEqual({
    enroll: `${base}/settings/security/passkeys/new`,
    manage: `${base}/settings/security#passkeys`,
  });
});
