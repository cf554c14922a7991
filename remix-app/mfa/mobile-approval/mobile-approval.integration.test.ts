import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signIn,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../../testing/at-once.ts";
import { type AuthenticatorApp, codeOf } from "../../testing/authenticator-app.ts";
import { accessTokenOf, openBrowser } from "../../testing/browser.ts";
import { openPhone, type Phone, unlockedPhone } from "../../testing/phone.ts";

const { base, supabase } = readStack();
const challenges = "/api/v1/auth/mfa/mobile/challenges";
const approvals = "/api/v1/auth/mfa/mobile/approvals";
const cookieName = "ttr_mfa_mobile_approval";

interface Asked {
  id: string;
  secret: string;
  pairCode: string;
  expiresAt: string;
}

/** An account, its authenticator app, and a phone that is signed in with a code from that app. */
interface Own {
  person: Person;
  app: AuthenticatorApp;
  phone: Phone;
}

const made: Person[] = [];

const phoneOf = (who: Person, prove?: { factorId: string; code: string }) =>
  openPhone({ base, ...supabase }, { ...who, ...(prove ? { prove } : {}) });

/**
 * Creates a separate account for tests that would change the shared one. Verifying the phone's code ends every session
 * at AAL1, so tests must sign in browsers afterwards.
 */
async function own(): Promise<Own> {
  const person = await createPerson();
  made.push(person);
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  return { person, app, phone: await phoneOf(person, { factorId: app.factorId, code: codeOf(app) }) };
}

let { person, phone }: Own = {} as Own;
/** A browser that is signed in to the shared account but still has to pass the second factor. */
let browser: SignedInBrowser;
const shareOne = () =>
  beforeAll(async () => {
    ({ person, phone } = await own());
    browser = await enter(person);
  });
const signInAgain = () => enter(person);
afterAll(async () => {
  for (const one of made) await deletePerson(one);
});

async function ask(by = browser): Promise<Asked> {
  const { status, text } = await by.postJson(challenges, {});
  expect(status, text).toBe(201);
  return JSON.parse(text);
}

const answer = (by: Phone, { id, pairCode }: Asked, decision = "approve") =>
  by.post(`${challenges}/${id}/approve`, { decision, pairCode, device: unlockedPhone });

async function poll(by: Pick<SignedInBrowser, "get">, { id, secret }: Asked) {
  const { status, text } = await by.get(`${challenges}/${id}?secret=${secret}`);
  return { status, body: JSON.parse(text) };
}

/** Returns a browser whose sign-in was approved on the phone. */
async function approved(by: SignedInBrowser, approver = phone): Promise<SignedInBrowser> {
  const asked = await ask(by);
  expect((await answer(approver, asked)).status).toBe(200);
  expect((await poll(by, asked)).body.status).toBe("bound");
  expect((await by.get("/workspaces")).status).toBe(200);
  return by;
}

/** Expects a redirect to the challenge and a cleared approval cookie. */
async function expectChallenged(by: SignedInBrowser): Promise<void> {
  expect((await by.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
  expect(by.cookie()).not.toContain(cookieName);
}

const advanceBoundary = ({ id }: Person) =>
  query(
    `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
     update auth.users set raw_app_meta_data = raw_app_meta_data || jsonb_build_object('platform_required_mfa',
       jsonb_build_object('version', 1, 'required', true, 'boundary', floor(extract(epoch from now())),
         'primaryBoundary', null, 'recovery', 'none', 'generation', 1))
     from writer where id = $1`,
    [id],
  );

const wrongCodes = ({ pairCode }: Asked) =>
  Array.from({ length: 60 }, (_, nth) => String((Number(pairCode) + 1 + nth) % 1_000_000).padStart(6, "0"));

describe("a sign-in approved on the phone", () => {
  shareOne();

  test("an approval on the phone lets the browser's session open pages for 12 hours", async () => {
    const browser = await signIn(person, { returnUrl: "/workspaces" });
    expect(browser.location).toBe("/mfa?returnUrl=%2Fworkspaces");
    const asked = await ask(browser);
    expect(asked.pairCode).toMatch(/^\d{6}$/);
    expect(await poll(browser, asked)).toEqual({ status: 200, body: { status: "created" } });
    const listed = await phone.get<{ approvals: object[] }>(approvals);
    expect(listed).toMatchObject({
      status: 200,
      body: { approvals: [{ id: asked.id, device: "Unknown browser", expiresAt: asked.expiresAt }], nextCursor: null },
    });
    expect(JSON.stringify(listed.body)).not.toContain(asked.pairCode);
    expect(await answer(phone, asked)).toMatchObject({ status: 200, body: { status: "approved" }, setCookies: [] });
    expect((await browser.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");

    const bound = await poll(browser, asked);
    expect(bound.body).toEqual({ status: "bound", validUntil: expect.stringMatching(/Z$/) });
    const hours = (Date.parse(bound.body.validUntil) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(11.99);
    expect(hours).toBeLessThanOrEqual(12.01);
    expect((await browser.get("/workspaces")).status).toBe(200);
    // The session itself is unchanged: no proof was added to it.
    expect(await browser.session()).toMatchObject({ aal: "aal1", mfa: { required: true, satisfied: true } });
    expect((await browser.get("/settings/security/password")).location).toMatch(/^\/step-up/);
  });

  test("an approval sets an HttpOnly cookie for this host only", async () => {
    const browser = await signInAgain();
    const asked = await ask(browser);
    await answer(phone, asked);
    const response = await fetch(new URL(`${challenges}/${asked.id}?secret=${asked.secret}`, base), {
      headers: { cookie: browser.cookie() },
    });
    const cookie = response.headers.getSetCookie().find((header) => header.startsWith(cookieName)) ?? "";
    expect(cookie).toMatch(/; HttpOnly/);
    expect(cookie).toMatch(/; SameSite=Lax/);
    expect(cookie).not.toMatch(/domain/i);
    expect(Number(/Max-Age=(\d+)/.exec(cookie)?.[1])).toBeGreaterThan(43_100);
    expect(Number(/Max-Age=(\d+)/.exec(cookie)?.[1])).toBeLessThanOrEqual(43_200);
    expect(response.headers.get("cache-control")).toBe("private, no-store");
  });

  test("sets the approval's cookie again if the response was lost, but only for the same session", async () => {
    const browser = await signInAgain();
    const asked = await ask(browser);
    await answer(phone, asked);
    const cookie = browser.cookie();
    expect((await poll(openBrowser(base, { cookie }), asked)).body.status).toBe("bound");
    expect(browser.cookie()).not.toContain(cookieName);
    expect((await poll(browser, asked)).body.status).toBe("bound");
    expect(browser.cookie()).toContain(cookieName);
    expect((await poll(await signInAgain(), asked)).status).toBe(403);
  });

  test("a session approved by phone still needs MFA if the browser lacks the approval's cookie", async () => {
    const browser = await approved(await signInAgain());
    const kept = browser.cookie().split("; ");
    const without = openBrowser(base, { cookie: kept.filter((pair) => !pair.startsWith(cookieName)).join("; ") });
    expect((await without.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect(JSON.parse((await without.get("/api/v1/auth/session")).text)).toMatchObject({ mfa: { satisfied: false } });
  });

  test("a mobile approval does not satisfy MFA for requests that send the session's bearer token without the approval cookie", async () => {
    const browser = await approved(await signInAgain());
    const headers = { authorization: `Bearer ${accessTokenOf(browser)}` };
    const workspaces = await fetch(new URL("/api/v1/workspaces", base), { headers });
    expect([workspaces.status, await workspaces.json()]).toMatchObject([403, { code: "MFA_REQUIRED" }]);
    const session = await fetch(new URL("/api/v1/auth/session", base), { headers });
    expect(await session.json()).toMatchObject({ mfa: { required: true, satisfied: false } });
  });

  test("refuses a forged approval cookie", async () => {
    const browser = await approved(await signInAgain());
    const others = browser
      .cookie()
      .split("; ")
      .filter((pair) => !pair.startsWith(cookieName));
    for (const value of ["", "x", `${Date.now() + 3_600_000}.${"A".repeat(43)}`]) {
      const forged = openBrowser(base, { cookie: [...others, `${cookieName}=${value}`].join("; ") });
      expect((await forged.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
      expect(forged.cookie()).not.toContain(cookieName);
    }
  });

  test("a request with another session's approval cookie is redirected to the MFA challenge, and the cookie is cleared", async () => {
    const first = await approved(await signInAgain());
    const cookie =
      first
        .cookie()
        .split("; ")
        .find((pair) => pair.startsWith(cookieName)) ?? "";
    const second = await signInAgain();
    const both = openBrowser(base, { cookie: `${second.cookie()}; ${cookie}` });
    expect((await both.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect(both.cookie()).not.toContain(cookieName);
  });

  test("signing out ends an approval, and the response expires its cookie", async () => {
    const browser = await approved(await signInAgain());
    const cookie = browser.cookie();
    const response = await fetch(new URL("/logout", base), {
      method: "POST",
      redirect: "manual",
      headers: { cookie, "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded" },
    });
    const cleared = response.headers.getSetCookie().filter((header) => header.startsWith(`${cookieName}=;`));
    expect(cleared.join()).toContain("Max-Age=0");
    expect((await openBrowser(base, { cookie }).get("/workspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
    const again = openBrowser(base, { cookie: cookie.split("; ").find((pair) => pair.startsWith(cookieName)) ?? "" });
    await again.post("/login", { ...person, returnUrl: "/workspaces" });
    expect((await again.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect(again.cookie()).not.toContain(cookieName);
  });

  test("an approval ends when the account's MFA policy ends earlier sessions", async () => {
    const { person, phone } = await own();
    const browser = await approved(await enter(person), phone);
    await advanceBoundary(person);
    await expectChallenged(browser);
  });

  test("an approval ends once the phone's authenticator is removed, even if the account has another one", async () => {
    const { person, phone, app } = await own();
    const browser = await approved(await enter(person), phone);
    await query(
      `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
       values (gen_random_uuid(), $1, 'Spare', 'totp', 'verified', now(), now(), 'secret')`,
      [person.id],
    );
    const { auth } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
    await auth.admin.mfa.deleteFactor({ id: app.factorId, userId: person.id });
    await expectChallenged(browser);
  });

  test("an approval ends when it expires, even if its cookie hasn't expired", async () => {
    const browser = await approved(await signInAgain());
    await query("update private.login_challenges set valid_until = now() where user_id = $1", [person.id]);
    await expectChallenged(browser);
  });
});

describe("an approval request", () => {
  shareOne();

  test("answers 409 to an approval request unless a second factor is still due, and 401 without a session", async () => {
    const bound = await approved(await signInAgain());
    expect((await bound.postJson(challenges, {})).status).toBe(409);
    const plain = await createPerson();
    try {
      expect((await (await enter(plain)).postJson(challenges, {})).status).toBe(409);
    } finally {
      await deletePerson(plain);
    }
    expect((await openBrowser(base).postJson(challenges, {})).status).toBe(401);
    expect((await phone.post(challenges, {})).status).toBe(403);
  });

  test.each(["cross-site", "same-site"])(
    "refuses an approval request from a page of another origin (%s)",
    async (site) => {
      const response = await fetch(new URL(challenges, base), {
        method: "POST",
        headers: { cookie: browser.cookie(), "sec-fetch-site": site },
      });
      expect([response.status, await response.json()]).toMatchObject([403, { code: "CSRF_REJECTED" }]);
    },
  );

  test("the fifth of 60 concurrent wrong codes locks an approval request", async () => {
    const asked = await ask();
    const guesses = await Promise.all(wrongCodes(asked).map((pairCode) => answer(phone, { ...asked, pairCode })));
    expect(guesses.filter(({ status }) => status === 403)).toHaveLength(5);
    expect(guesses.filter(({ status }) => status === 409)).toHaveLength(55);
    expect((await answer(phone, asked)).status).toBe(409);
    expect((await poll(browser, asked)).body).toEqual({ status: "locked" });
  });

  test("a wrong code's error says how many attempts are left, and the right code works after four wrong ones", async () => {
    const asked = await ask();
    for (const [nth, attemptsLeft] of [4, 3, 2, 1].entries()) {
      const wrong = await answer(phone, { ...asked, pairCode: wrongCodes(asked)[nth] ?? "" });
      expect(wrong).toMatchObject({ status: 403, body: { code: "FORBIDDEN", attemptsLeft } });
    }
    expect((await answer(phone, asked)).status).toBe(200);
  });

  test("many concurrent answers approve an approval request once, and many concurrent polls bind it to the session once", async () => {
    const { person, phone } = await own();
    const browser = await enter(person);
    const asked = await ask(browser);
    const answers = await callAtOnce(() => answer(phone, asked));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(atOnce - 1);
    const polls = await callAtOnce(() => poll(browser, asked));
    expect(new Set(polls.map(({ body }) => `${body.status} ${body.validUntil}`)).size).toBe(1);
    const rows = await query("select from private.login_challenges where user_id = $1 and status = 'bound'", [
      person.id,
    ]);
    expect(rows).toHaveLength(1);
  });

  test("an approval request can be rejected without its code, and stays rejected", async () => {
    const asked = await ask();
    const body = { decision: "reject", device: unlockedPhone };
    expect(await phone.post(`${challenges}/${asked.id}/approve`, body)).toMatchObject({
      status: 200,
      body: { status: "rejected" },
    });
    expect((await poll(browser, asked)).body).toEqual({ status: "rejected" });
    expect((await answer(phone, asked)).status).toBe(409);
  });

  test("a phone at AAL1, another account's phone and the browser itself can neither list nor answer an approval request", async () => {
    const asked = await ask();
    const plain = await phoneOf(person);
    expect(await plain.get(approvals)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
    expect(await answer(plain, asked)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
    expect((await browser.postJson(`${challenges}/${asked.id}/approve`, {})).status).toBe(403);
    expect((await browser.get(approvals)).status).toBe(403);
    const other = await createPerson();
    try {
      const theirs = await phoneOf(other);
      expect(await answer(theirs, asked)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
      const [factor] = await insertAuthenticators(other, ["Theirs"]);
      if (!factor) throw new Error("no app");
      const proved = await phoneOf(other, { factorId: factor.factorId, code: codeOf(factor, 1) });
      expect(await proved.get(approvals)).toMatchObject({ status: 200, body: { approvals: [] } });
      expect((await answer(proved, asked)).status).toBe(404);
    } finally {
      await deletePerson(other);
    }
    expect((await poll(browser, asked)).body).toEqual({ status: "created" });
  });

  test.each([
    ["no decision", { pairCode: "123456", device: unlockedPhone }],
    ["an unknown decision", { decision: "maybe", pairCode: "123456", device: unlockedPhone }],
    ["a five-digit code", { decision: "approve", pairCode: "12345", device: unlockedPhone }],
    ["an approval but no code", { decision: "approve", device: unlockedPhone }],
    ["no device", { decision: "approve", pairCode: "123456" }],
  ])("returns 400 if the answer to an approval request has %s", async (_, body) => {
    expect((await phone.post(`${challenges}/${crypto.randomUUID()}/approve`, body)).status).toBe(400);
  });

  test("refuses an approval from a phone without app lock (403), for an unknown request (404) and for an expired request (410)", async () => {
    const asked = await ask();
    const open = { ...unlockedPhone, appLock: false };
    const body = { decision: "approve", pairCode: asked.pairCode, device: open };
    expect((await phone.post(`${challenges}/${asked.id}/approve`, body)).status).toBe(403);
    expect((await answer(phone, { ...asked, id: crypto.randomUUID() })).status).toBe(404);
    await query(
      `update private.login_challenges set created_at = created_at - (expires_at - now()), expires_at = now()
       where id = $1`,
      [asked.id],
    );
    expect(await answer(phone, asked)).toMatchObject({ status: 410, body: { code: "GONE" } });
    expect((await poll(browser, asked)).body).toEqual({ status: "expired" });
  });
});

describe("the page of an approval request", () => {
  shareOne();

  test("the mobile approval page shows the code, and completes the sign-in only when the button is pressed", async () => {
    const browser = await signInAgain();
    const page = "/mfa/app?returnUrl=%2Fworkspaces";
    expect((await browser.get("/mfa?returnUrl=%2Fworkspaces")).text).toContain(`href="${page}"`);
    expect((await browser.get(page)).words).toContain("Send request to my phone");
    expect((await browser.post(page, { intent: "create" })).location).toBe(page);
    const { text, words } = await browser.get(page);
    const id = /challenges\/([0-9a-f-]{36})\?secret=/.exec(text)?.[1] ?? "";
    const pairCode = /Code for the .+? app (\d{3} \d{3})/.exec(words)?.[1]?.replace(" ", "") ?? "";
    expect((await browser.post(page, { intent: "continue" })).location).toBe(page);
    await answer(phone, { id, pairCode, secret: "", expiresAt: "" });
    for (const _ of [1, 2]) expect((await browser.get(page)).words).toContain("Approved on your phone");
    expect(browser.cookie()).not.toContain(cookieName);
    expect((await browser.post(page, { intent: "continue" })).location).toBe("/workspaces");
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect((await browser.get(page)).location).toBe("/workspaces");
  });

  test("shows nothing about another browser's approval request", async () => {
    await browser.post("/mfa/app", { intent: "create" });
    const kept =
      browser
        .cookie()
        .split("; ")
        .find((pair) => pair.startsWith("gh_mfa_app=")) ?? "";
    const second = await signInAgain();
    const planted = openBrowser(base, { cookie: `${second.cookie()}; ${kept}` });
    const { words } = await planted.get("/mfa/app");
    expect(words).toContain("Send request to my phone");
    expect(words).not.toMatch(/Code for the .+ app/);
    expect((await planted.post("/mfa/app", { intent: "continue" })).location).toBe("/mfa/app");
  });
});

describe("an approval in a browser with several accounts", () => {
  shareOne();
  let other: Person;
  beforeAll(async () => {
    other = await createPerson();
    made.push(other);
  });

  const accountsPath = "/api/v1/auth/accounts";
  const switchTo = async (by: SignedInBrowser, { id: accountId }: Person) =>
    expect((await by.postJson(`${accountsPath}/switch`, { accountId })).status).toBe(200);
  const isSatisfied = async (by: SignedInBrowser) => (await by.session()).mfa.satisfied;

  /** Returns a browser with both accounts, in which the approved one is not active. */
  async function leave(owner = { person, phone }): Promise<SignedInBrowser> {
    const browser = await approved(await enter(owner.person), owner.phone);
    await browser.post("/add-account", { email: other.email, password: other.password });
    // The cookie of another account's approval is cleared as stale.
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect(browser.cookie()).not.toContain(cookieName);
    return browser;
  }

  test("an approval counts again when its session becomes active, and only for that account", async () => {
    const browser = await leave();
    await switchTo(browser, person);
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect(await isSatisfied(browser)).toBe(true);
    await switchTo(browser, other);
    await browser.get("/workspaces");
    expect(browser.cookie()).not.toContain(cookieName);
  });

  test("a sign-out expires the approval's cookie, even if an account with an approval becomes active", async () => {
    const browser = await leave();
    const { headers } = await browser.postJson(`${accountsPath}/logout`, {});
    expect((await browser.session()).user.id).toBe(person.id);
    const written = headers.getSetCookie().filter((cookie) => cookie.startsWith(`${cookieName}=`));
    expect(written).not.toEqual([]);
    for (const cookie of written) expect(cookie).toContain("Max-Age=0");
    await expectChallenged(browser);
  });

  test("an approval counts again if the response to the switch was lost", async () => {
    const browser = await leave();
    await switchTo(openBrowser(base, { cookie: browser.cookie() }) as SignedInBrowser, person);
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect(await isSatisfied(browser)).toBe(true);
  });

  test("concurrent switches leave the approval with the session it was given to", async () => {
    const browser = await leave();
    await callAtOnce((nth) => switchTo(browser, nth % 2 ? person : other), { times: 8 });
    await switchTo(browser, other);
    await browser.get("/workspaces");
    expect(browser.cookie()).not.toContain(cookieName);
    await switchTo(browser, person);
    expect((await browser.get("/workspaces")).status).toBe(200);
  });

  test("an approval does not return to a browser that lost only its cookie, even when its token is renewed", async () => {
    const browser = await approved(await signInAgain());
    const cookie = browser.cookie().split("; ");
    const without = openBrowser(base, { cookie: cookie.filter((pair) => !pair.startsWith(cookieName)).join("; ") });
    // Another copy of the browser renews the session, so this one gets its tokens from the vault.
    await browser.postJson(`${accountsPath}/switch`, { accountId: person.id });
    expect((await without.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
  });

  const changes: { change: string; apply: (owner: Own, browser: SignedInBrowser) => Promise<unknown> }[] = [
    {
      change: "the account signed in again in this browser",
      apply: async ({ person: { email, password } }, browser) => {
        await browser.post("/add-account", { email, password });
        await browser.get("/workspaces");
        await switchTo(browser, other);
      },
    },
    {
      change: "the account signed out of this browser and signed in again",
      apply: async ({ person: { id, email, password } }, browser) => {
        await browser.post("/accounts", { intent: "sign_out", accountId: id });
        await browser.post("/add-account", { email, password });
        await browser.get("/workspaces");
        await switchTo(browser, other);
      },
    },
    {
      change: "the phone's authenticator was removed",
      apply: async ({ person, app }) => {
        await insertAuthenticators(person, ["Spare"]);
        await query("delete from auth.mfa_factors where id = $1", [app.factorId]);
      },
    },
    {
      change: "the policy's boundary is newer",
      apply: ({ person }) => advanceBoundary(person),
    },
    {
      change: "its 12 hours have passed",
      apply: ({ person }) =>
        query("update private.login_challenges set valid_until = now() where user_id = $1", [person.id]),
    },
  ];
  test.each(changes)("an approval does not count after a switch if $change", async ({ apply }) => {
    const owner = await own();
    const browser = await leave(owner);
    await apply(owner, browser);
    await switchTo(browser, owner.person);
    await expectChallenged(browser);
  });

  test("an approval does not count in another browser with the same accounts", async () => {
    const owner = await own();
    await leave(owner);
    const second = await enter(owner.person);
    await second.post("/add-account", { email: other.email, password: other.password });
    await second.get("/workspaces");
    await switchTo(second, owner.person);
    await expectChallenged(second);
  });
});
