import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPerson, deletePerson, type Person, signedInLongAgo, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { type AuthenticatorApp, codeOf, enrollApps, wrongCodesOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";

const { base, supabase } = readStack();
const stale = 610;
const guarded = "/reset-password?returnUrl=%2Fworkspaces";
const stepUp = `/step-up?${new URLSearchParams({ returnUrl: guarded })}`;
let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

describe("without an authenticator", () => {
  test("a sign-in of the last ten minutes is enough, an older one is not", async () => {
    expect((await (await signedInLongAgo(person, { secondsAgo: 590 })).get(guarded)).status).toBe(200);
    expect((await (await signedInLongAgo(person, { secondsAgo: stale })).get(guarded)).location).toBe(stepUp);
  });

  test("the password gives a new session in the place of the old one, which is over, and leads on", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const before = { cookie: browser.cookie(), ...(await browser.session()) };
    expect((await browser.get(stepUp)).text).toContain(person.email);
    expect((await browser.post(stepUp, { password: person.password })).location).toBe(guarded);
    expect((await browser.session()).sessionId).not.toBe(before.sessionId);
    expect((await browser.get(guarded)).status).toBe(200);
    const old = openBrowser(base, { cookie: before.cookie });
    expect((await old.get("/api/v1/auth/session")).status).toBe(401);
  });

  test("a wrong password changes nothing", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const { sessionId } = await browser.session();
    const answer = await browser.post(stepUp, { password: "not the password" });
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining("That password is not right")]);
    expect((await browser.session()).sessionId).toBe(sessionId);
    expect((await browser.get(guarded)).location).toBe(stepUp);
  });

  test("a form sent too late leads back to the page that holds it", async () => {
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

describe("with an authenticator", () => {
  let app: AuthenticatorApp;
  beforeEach(async () => {
    const [enrolled] = await enrollApps(supabase, { ...person, names: ["Phone"] });
    if (!enrolled) throw new Error("no app");
    app = enrolled;
  });
  const longAgo = () =>
    signedInLongAgo(person, { secondsAgo: stale, prove: { factorId: app.factorId, code: codeOf(app) } });

  test("a code on the same session is enough, and leads on", async () => {
    const browser = await longAgo();
    expect((await browser.get(guarded)).location).toBe(stepUp);
    const { sessionId } = await browser.session();
    const answer = await browser.post(stepUp, { factorId: app.factorId, code: codeOf(app, 1) });
    expect(answer.location).toBe(guarded);
    expect(await browser.session()).toMatchObject({ sessionId, aal: "aal2" });
    expect((await browser.get(guarded)).status).toBe(200);
  });

  test("a password is not", async () => {
    const browser = await longAgo();
    expect((await browser.post(stepUp, { password: person.password })).status).toBe(400);
    expect((await browser.get(guarded)).location).toBe(stepUp);
  });

  test("neither a wrong code nor a used one is", async () => {
    const browser = await longAgo();
    const [wrong = ""] = wrongCodesOf(app);
    expect((await browser.post(stepUp, { factorId: app.factorId, code: wrong })).status).toBe(400);
    const code = codeOf(app, 1);
    const other = await signIn(person);
    await other.post("/mfa", { factorId: app.factorId, code });
    const used = await browser.post(stepUp, { factorId: app.factorId, code });
    expect([used.status, used.text]).toEqual([400, expect.stringContaining("That code was used already")]);
  });

  test("who has yet to prove it at all goes to the challenge", async () => {
    const browser = await signIn(person);
    expect((await browser.get(stepUp)).location).toBe(`/mfa?${new URLSearchParams({ returnUrl: guarded })}`);
  });
});

test("who is fresh already goes on, and never off our origin", async () => {
  const browser = await signIn(person);
  expect((await browser.get(stepUp)).location).toBe(guarded);
  for (const target of ["https://evil.example", "//evil.example", "/\\evil.example"]) {
    expect((await browser.get(`/step-up?${new URLSearchParams({ returnUrl: target })}`)).location).toBe("/");
  }
});

test("a visitor without a session signs in first", async () => {
  expect((await openBrowser(base).get(stepUp)).location).toBe(`/login?${new URLSearchParams({ returnUrl: guarded })}`);
});
