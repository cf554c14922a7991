import { Authenticator } from "@gatehousehq/local-stack/contract/support/authenticator";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
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
import { readStack } from "../../scripts/test/stack.ts";
import { type AuthenticatorApp, codeOf, wrongCodesOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";

const { base } = readStack();
const stale = 610;
const guarded = "/reset-password?returnUrl=%2Fworkspaces";
const stepUp = `/step-up?${new URLSearchParams({ returnUrl: guarded })}`;
let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

describe("step-up without an authenticator", () => {
  test("a step-up accepts a sign-in from the last ten minutes, but not an older one", async () => {
    expect((await (await signedInLongAgo(person, { secondsAgo: 590 })).get(guarded)).status).toBe(200);
    expect((await (await signedInLongAgo(person, { secondsAgo: stale })).get(guarded)).location).toBe(stepUp);
  });

  test("a step-up with the password replaces and ends the old session, and leads to the protected page", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const before = { cookie: browser.cookie(), ...(await browser.session()) };
    expect((await browser.get(stepUp)).text).toContain(person.email);
    expect((await browser.post(stepUp, { password: person.password })).location).toBe(guarded);
    expect((await browser.session()).sessionId).not.toBe(before.sessionId);
    expect((await browser.get(guarded)).status).toBe(200);
    const old = openBrowser(base, { cookie: before.cookie });
    expect((await old.get("/api/v1/auth/session")).status).toBe(401);
  });

  test("a step-up changes nothing after a wrong password", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const { sessionId } = await browser.session();
    const answer = await browser.post(stepUp, { password: "not the password" });
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining("That password is incorrect")]);
    expect((await browser.session()).sessionId).toBe(sessionId);
    expect((await browser.get(guarded)).location).toBe(stepUp);
  });

  test("a form sent after the step-up expired leads back to the page that contains the form", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const response = await fetch(new URL("/reset-password?returnUrl=%2Fworkspaces", base), {
      method: "POST",
      headers: { cookie: browser.cookie(), "sec-fetch-site": "same-origin", referer: `${base}${guarded}` },
      body: new URLSearchParams({ password: "a new password of mine" }),
      redirect: "manual",
    });
    expect(response.headers.get("location")).toBe(stepUp);
  });
});

describe("step-up with a passkey", () => {
  const site = { origin: base, rpId: new URL(base).hostname };

  async function addPasskey(owner: Person): Promise<Authenticator> {
    const browser = await enter(owner);
    const authenticator = new Authenticator();
    const { challengeId, options } = JSON.parse(
      (await browser.postJson("/settings/security/passkeys/options", {})).text,
    );
    const credential = authenticator.create(options, site);
    const { status, text } = await browser.postJson("/settings/security/passkeys", { challengeId, credential });
    expect(status, text).toBe(200);
    return authenticator;
  }

  async function prove(browser: SignedInBrowser, authenticator: Authenticator) {
    const { challengeId, options } = JSON.parse((await browser.postJson("/login/passkey/options", {})).text);
    const credential = authenticator.get(options, site);
    const answer = await browser.postJson("/step-up/passkey", { challengeId, credential, returnUrl: guarded });
    return { status: answer.status, body: JSON.parse(answer.text) };
  }

  test("a step-up with a passkey replaces the old session and leads to the protected page", async () => {
    const passkey = await addPasskey(person);
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    expect((await browser.get(stepUp)).text).toContain("Sign in with a passkey");
    const before = { cookie: browser.cookie(), ...(await browser.session()) };
    expect(await prove(browser, passkey)).toEqual({ status: 200, body: { redirectTo: guarded } });
    expect((await browser.session()).sessionId).not.toBe(before.sessionId);
    expect((await browser.get(guarded)).status).toBe(200);
    expect((await openBrowser(base, { cookie: before.cookie }).get("/api/v1/auth/session")).status).toBe(401);
  });

  test("a step-up refuses another account's passkey, and keeps the user signed in", async () => {
    const other = await createPerson();
    try {
      const theirs = await addPasskey(other);
      const sessionsOf = () => query("select from auth.sessions where user_id = $1", [other.id]);
      const count = (await sessionsOf()).length;
      const browser = await signedInLongAgo(person, { secondsAgo: stale });
      const before = await browser.session();
      expect(await prove(browser, theirs)).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
      expect(await browser.session()).toEqual(before);
      expect(await sessionsOf()).toHaveLength(count);
      expect((await browser.get(guarded)).location).toBe(stepUp);
    } finally {
      await deletePerson(other);
    }
  });

  test("a step-up doesn't accept a passkey if the account has an authenticator", async () => {
    const passkey = await addPasskey(person);
    await insertAuthenticators(person, ["Phone"]);
    const browser = await enter(person);
    expect(await prove(browser, passkey)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
  });

  test("a step-up refuses a passkey from a signed-out visitor", async () => {
    const passkey = await addPasskey(person);
    const browser = { ...openBrowser(base), location: null, session: async () => Promise.reject(new Error("none")) };
    expect(await prove(browser, passkey)).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
  });
});

describe("step-up for an account without a password", () => {
  test("a step-up offers the account's sign-in methods, and a code by email", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    await query("update auth.users set encrypted_password = null where id = $1", [person.id]);
    const { text } = await browser.get(stepUp);
    expect(text).not.toContain('type="password"');
    expect(text).not.toContain("Sign in with a passkey");
    expect(text).toContain('href="/step-up/code?');
    expect((await browser.post(stepUp, { password: "" })).status).toBe(400);
  });
});

describe("step-up with an authenticator", () => {
  let app: AuthenticatorApp;
  beforeEach(async () => {
    const [enrolled] = await insertAuthenticators(person, ["Phone"]);
    if (!enrolled) throw new Error("no app");
    app = enrolled;
  });
  const longAgo = () =>
    signedInLongAgo(person, { secondsAgo: stale, prove: { factorId: app.factorId, code: codeOf(app) } });

  test("a step-up with an authenticator accepts a code, keeps the session, and leads to the protected page", async () => {
    const browser = await longAgo();
    expect((await browser.get(guarded)).location).toBe(stepUp);
    const { sessionId } = await browser.session();
    const answer = await browser.post(stepUp, { factorId: app.factorId, code: codeOf(app, 1) });
    expect(answer.location).toBe(guarded);
    expect(await browser.session()).toMatchObject({ sessionId, aal: "aal2" });
    expect((await browser.get(guarded)).status).toBe(200);
  });

  test("a step-up with an authenticator refuses a password", async () => {
    const browser = await longAgo();
    expect((await browser.post(stepUp, { password: person.password })).status).toBe(400);
    expect((await browser.get(guarded)).location).toBe(stepUp);
  });

  test("a step-up refuses a wrong code and a used one", async () => {
    const browser = await longAgo();
    const [wrong = ""] = wrongCodesOf(app);
    expect((await browser.post(stepUp, { factorId: app.factorId, code: wrong })).status).toBe(400);
    const code = codeOf(app, 1);
    const other = await enter(person);
    await other.post("/mfa", { factorId: app.factorId, code });
    const used = await browser.post(stepUp, { factorId: app.factorId, code });
    expect([used.status, used.text]).toEqual([400, expect.stringContaining("That code was already used")]);
  });

  test("a step-up redirects a session with a pending second factor to the MFA challenge", async () => {
    const browser = await enter(person);
    expect((await browser.get(stepUp)).location).toBe(`/mfa?${new URLSearchParams({ returnUrl: guarded })}`);
  });
});

test("soon after a sign-in, a step-up redirects to its destination immediately, but never to another origin", async () => {
  const browser = await enter(person);
  expect((await browser.get(stepUp)).location).toBe(guarded);
  for (const target of ["https://evil.example", "//evil.example", "/\\evil.example"]) {
    expect((await browser.get(`/step-up?${new URLSearchParams({ returnUrl: target })}`)).location).toBe("/");
  }
});

test("a step-up sends a visitor without a session to sign-in", async () => {
  expect((await openBrowser(base).get(stepUp)).location).toBe(`/login?${new URLSearchParams({ returnUrl: guarded })}`);
});
