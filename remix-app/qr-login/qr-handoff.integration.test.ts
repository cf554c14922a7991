import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  type SignedInBrowser,
  signedInLongAgo,
  tokenOf,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { openPhone, type Phone, unlockedPhone } from "../testing/phone.ts";
import { newAddress } from "../testing/visitor.ts";
import { startWatchedWeb, type WatchedWeb } from "../testing/watched-web.ts";

const { base, supabase } = readStack();
const challenges = "/api/v1/auth/qr-login/challenges";
const json = { accept: "application/json" };

interface Own {
  person: Person;
  browser: SignedInBrowser;
  phone: Phone;
}

const made: Person[] = [];

const phoneOf = (who: Person, prove?: { factorId: string; code: string }) =>
  openPhone({ base, ...supabase }, { ...who, ...(prove ? { prove } : {}) });

/** Creates an account with a browser and a phone that a test may alter without affecting other tests. */
async function own(): Promise<Own> {
  const person = await createPerson();
  made.push(person);
  const [browser, phone] = await Promise.all([enter(person), phoneOf(person)]);
  return { person, browser, phone };
}

// Shared by tests that leave the account unchanged. A consumed challenge only replaces the browser's session with
// another session of the same account.
let { person, browser, phone }: Own = {} as Own;
const shareOne = () =>
  beforeAll(async () => {
    ({ person, browser, phone } = await own());
  });
afterAll(async () => {
  for (const one of made) await deletePerson(one);
});

interface OpenedRun {
  id: string;
  secret: string;
  payload: string;
  expiresAt: string;
}

async function begin(by = browser): Promise<OpenedRun> {
  const { status, text } = await by.postJson(challenges, {});
  expect(status, text).toBe(201);
  return JSON.parse(text);
}

const approve = (by: Phone, { id, secret }: OpenedRun, device: object = unlockedPhone) =>
  by.post(`${challenges}/${id}/approve`, { secret, device });

async function poll(by: Pick<SignedInBrowser, "get">, { id, secret }: OpenedRun) {
  const { status, text } = await by.get(`${challenges}/${id}?secret=${secret}`);
  return { status, body: JSON.parse(text) };
}

const sessionsOf = async ({ id }: Person) =>
  (await query<{ id: string }>("select id from auth.sessions where user_id = $1 order by id", [id])).map(
    (row) => row.id,
  );

const expire = ({ id }: OpenedRun) =>
  query(
    `update private.login_challenges set created_at = created_at - (expires_at - now()), expires_at = now()
     where id = $1`,
    [id],
  );

const claimsOf = (by: SignedInBrowser) => {
  const pairs = Object.fromEntries(
    by
      .cookie()
      .split("; ")
      .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
  const name = Object.keys(pairs).find((key) => /^sb-.*-auth-token(\.0)?$/.test(key)) ?? "";
  const whole = name.endsWith(".0") ? `${pairs[name]}${pairs[name.replace(/0$/, "1")] ?? ""}` : pairs[name];
  const stored = JSON.parse(Buffer.from((whole ?? "").replace(/^base64-/, ""), "base64url").toString());
  return JSON.parse(Buffer.from(stored.access_token.split(".")[1], "base64url").toString()) as {
    session_id: string;
    aal: string;
    amr: { method: string; timestamp: number }[];
  };
};

describe("a QR handoff", () => {
  shareOne();

  test("a QR handoff gives the browser a session that is neither its previous one nor the phone's", async () => {
    const before = (await browser.session()).sessionId;
    const begun = await begin();
    expect(begun.payload).toBe(`${base}/qr/open#${begun.id}.${begun.secret}`);
    expect(Date.parse(begun.expiresAt) - Date.now()).toBeGreaterThan(110_000);
    expect(await poll(browser, begun)).toEqual({ status: 200, body: { status: "created" } });
    expect(await approve(phone, begun)).toMatchObject({ status: 200, body: { status: "approved" }, setCookies: [] });
    const { status, body } = await poll(browser, begun);
    expect([status, body]).toEqual([
      200,
      { status: "consumed", session: { userId: person.id, expiresAt: expect.stringMatching(/Z$/) } },
    ]);
    const { sessionId, aal, mfa } = await browser.session();
    expect([before, phone.sessionId]).not.toContain(sessionId);
    expect([aal, mfa]).toEqual(["aal1", { required: false, satisfied: true }]);
    expect((await phone.get("/api/v1/auth/session")).status).toBe(200);
    expect(await sessionsOf(person)).toEqual([sessionId, phone.sessionId].sort());
    const log = await query<{ kind: string; method: string | null }>(
      "select kind, method from public.security_events where user_id = $1 order by created_at desc limit 2",
      [person.id],
    );
    expect(log).toEqual([
      { kind: "sign_in", method: "qr" },
      { kind: "qr_approved", method: null },
    ]);
  });

  test("reading a QR handoff on the phone shows which device sent it, from where and when, and changes nothing", async () => {
    const begun = await begin();
    const path = `${challenges}/${begun.id}?secret=${begun.secret}`;
    const asked = {
      status: 200,
      setCookies: [],
      body: { id: begun.id, status: "created", expiresAt: begun.expiresAt },
    };
    const seen = await phone.get<Record<string, string>>(path);
    expect(seen).toMatchObject(asked);
    expect(seen.body).toEqual({
      ...asked.body,
      device: expect.stringMatching(/^\w/),
      address: expect.stringMatching(/^[\da-f.:]+$/),
      createdAt: expect.stringMatching(/Z$/),
    });
    expect(Date.now() - Date.parse(seen.body.createdAt ?? "")).toBeLessThan(60_000);
    await approve(phone, begun);
    expect(await phone.get(path)).toMatchObject({ body: { status: "approved" } });
    expect(await phone.get(path)).toMatchObject({ body: { status: "approved" } });
    expect((await poll(browser, begun)).body.status).toBe("consumed");
  });

  test("reading a QR handoff is refused for another account, without the right secret, or with the requesting session's bearer token", async () => {
    const [begun, other] = [await begin(), await own()];
    const path = `${challenges}/${begun.id}?secret=${begun.secret}`;
    expect(await other.phone.get(path)).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    for (const wrong of [
      `${challenges}/${begun.id}?secret=x`,
      `${challenges}/${begun.id}`,
      `${challenges}/x?secret=x`,
    ]) {
      expect(await phone.get(wrong)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    }
    const same = await fetch(new URL(path, base), { headers: { authorization: `Bearer ${tokenOf(browser)}` } });
    expect([same.status, await same.json()]).toMatchObject([403, { code: "FORBIDDEN" }]);
  });

  test("a QR handoff never shows the text of an unrecognized user agent", async () => {
    const headers = { "user-agent": "Gatehouse security check - press approve", "sec-fetch-site": "same-origin" };
    const asked = await fetch(new URL(challenges, base), {
      method: "POST",
      headers: { ...headers, cookie: browser.cookie(), "content-type": "application/json" },
      body: "{}",
    });
    const { id, secret } = (await asked.json()) as OpenedRun;
    expect(await phone.get(`${challenges}/${id}?secret=${secret}`)).toMatchObject({
      body: { device: "Unknown browser" },
    });
  });

  test("a QR handoff stores only a hash of the secret, and no token", async () => {
    const begun = await begin();
    await approve(phone, begun);
    const [row] = await query<{ text: string; hash: string }>(
      "select to_jsonb(c)::text as text, encode(secret_hash, 'hex') as hash from private.login_challenges c where id = $1",
      [begun.id],
    );
    expect(row?.hash).toBe(createHash("sha256").update(begun.secret).digest("hex"));
    expect(row?.text).not.toContain(begun.secret);
    expect(row?.text).not.toMatch(/eyJ[A-Za-z0-9_-]+\./);
  });

  test("only one of many concurrent polls consumes a QR handoff, and only one session is minted", async () => {
    const { person, browser, phone } = await own();
    const begun = await begin(browser);
    await approve(phone, begun);
    const cookie = browser.cookie();
    const polls = await callAtOnce(() => poll(openBrowser(base, { address: newAddress(), cookie }), begun));
    expect(polls.filter(({ body }) => body.status === "consumed" && body.session)).toHaveLength(1);
    for (const { status } of polls) expect(status).toBeLessThan(500);
    // The phone's session and the browser's fresh session remain. The browser's earlier session has ended.
    expect(await sessionsOf(person)).toHaveLength(2);
  });

  test("a QR handoff is approved only once, even by concurrent approvals", async () => {
    const begun = await begin();
    const answers = await callAtOnce(() => approve(phone, begun));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(atOnce - 1);
  });

  test("a QR handoff gives the browser's session the phone's sign-in time, so an old sign-in still requires a step-up", async () => {
    const begun = await begin();
    const secondsAgo = 1_234;
    const old = await signedInLongAgo(person, { secondsAgo });
    const session = claimsOf(old);
    const token = tokenOf(old);
    const answer = await fetch(new URL(`${challenges}/${begun.id}/approve`, base), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ secret: begun.secret, device: unlockedPhone }),
    });
    expect(answer.status).toBe(200);
    expect((await poll(browser, begun)).body.status).toBe("consumed");
    const { amr } = claimsOf(browser);
    expect(amr).toEqual([{ method: "otp", timestamp: session.amr[0]?.timestamp }]);
    expect((await browser.get("/settings/security/password")).location).toMatch(/^\/step-up/);
  });

  test("after a QR handoff from a phone that signed in over a day ago, changing the password requires an emailed code", async () => {
    const { person, browser, phone } = await own();
    const begun = await begin(browser);
    const old = await signedInLongAgo(person, { secondsAgo: 25 * 60 * 60 });
    const answer = await fetch(new URL(`${challenges}/${begun.id}/approve`, base), {
      method: "POST",
      headers: { authorization: `Bearer ${tokenOf(old)}`, "content-type": "application/json" },
      body: JSON.stringify({ secret: begun.secret, device: unlockedPhone }),
    });
    expect(answer.status).toBe(200);
    expect((await poll(browser, begun)).body.status).toBe("consumed");
    const changed = await fetch(`${supabase.url}/auth/v1/user`, {
      method: "PUT",
      headers: {
        apikey: supabase.publishableKey,
        authorization: `Bearer ${tokenOf(browser)}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ password: "quite another password" }),
    });
    expect([changed.status, await changed.json()]).toMatchObject([400, { error_code: "reauthentication_needed" }]);
    expect((await phone.get("/api/v1/auth/session")).status).toBe(200);
  });

  test("a QR handoff is not a second factor: an account with an authenticator must still pass the second-factor challenge", async () => {
    const { person } = await own();
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no app");
    const unlocked = await phoneOf(person, { factorId: app.factorId, code: codeOf(app, 1) });
    const second = await enter(person);
    expect((await second.postJson(challenges, {})).status).toBe(403);
    const proved = await second.post("/mfa", { factorId: app.factorId, code: codeOf(app) });
    expect(proved.status).toBe(302);
    const begun = await begin(second);
    await approve(unlocked, begun);
    expect((await poll(second, begun)).body.status).toBe("consumed");
    expect(await second.session()).toMatchObject({ aal: "aal1", mfa: { required: true, satisfied: false } });
    expect((await second.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
  });
});

describe("creating a QR challenge", () => {
  shareOne();

  test("creating a QR challenge requires a session", async () => {
    expect((await openBrowser(base).postJson(challenges, {})).status).toBe(401);
  });

  test("creating a QR challenge is refused with a bearer token, because only a browser may do it", async () => {
    expect(await phone.post(challenges, {})).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
  });

  test.each(["cross-site", "same-site"])(
    "creating a QR challenge is refused from another origin (%s)",
    async (site) => {
      const response = await fetch(new URL(challenges, base), {
        method: "POST",
        headers: { cookie: browser.cookie(), "sec-fetch-site": site },
      });
      expect([response.status, await response.json()]).toMatchObject([403, { code: "CSRF_REJECTED" }]);
    },
  );

  test("creating a QR challenge succeeds 20 times in 15 minutes, and not a 21st time", async () => {
    const { person, browser } = await own();
    await query(
      `insert into private.login_challenges (kind, user_id, session_id, secret_hash, created_at, expires_at)
       select 'qr', $1, gen_random_uuid(), sha256('x'), now() - interval '5 minutes', now() - interval '3 minutes'
       from generate_series(1, 19)`,
      [person.id],
    );
    expect((await browser.postJson(challenges, {})).status).toBe(201);
    const response = await fetch(new URL(challenges, base), {
      method: "POST",
      headers: { cookie: browser.cookie(), "sec-fetch-site": "same-origin" },
    });
    expect([response.status, await response.json()]).toMatchObject([429, { code: "RATE_LIMITED" }]);
    const seconds = Number(response.headers.get("retry-after"));
    expect(seconds).toBeGreaterThan(590);
    expect(seconds).toBeLessThanOrEqual(600);
    expect((await browser.post("/qr", { intent: "create" })).words).toContain("too many codes");
  });

  test("creating a QR challenge is refused for an account without an email", async () => {
    const { person, browser } = await own();
    await query("update auth.users set email = null where id = $1", [person.id]);
    expect(await browser.postJson(challenges, {})).toMatchObject({ status: 409 });
  });

  test("creating a QR challenge is refused for a session that has yet to pass its second factor", async () => {
    const { person, browser } = await own();
    await requireMfa(person);
    const answer = await browser.postJson(challenges, {});
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([403, "MFA_REQUIRED"]);
  });
});

describe("refused QR approvals", () => {
  shareOne();

  test.each([
    ["without an app lock", { ...unlockedPhone, appLock: false }],
    ["that does not report an app lock", { name: "Phone", platform: "android", localAuthentication: "passcode" }],
    ["without local authentication", { ...unlockedPhone, localAuthentication: "none" }],
    ["that does not report local authentication", { name: "Phone", platform: "ios", appLock: true }],
  ])("a QR approval is refused from a phone %s", async (_, device) => {
    const begun = await begin();
    expect(await approve(phone, begun, device)).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    expect((await poll(browser, begun)).body.status).toBe("created");
  });

  test.each([
    ["an empty body", {}],
    ["an unsupported platform", { secret: "x", device: { ...unlockedPhone, platform: "windows" } }],
    ["an unknown field", { secret: "x", device: unlockedPhone, userId: "x" }],
    ["a name of 101 characters", { secret: "x", device: { ...unlockedPhone, name: "x".repeat(101) } }],
    ["a name with a NUL character", { secret: "x", device: { ...unlockedPhone, name: "Pho\0ne" } }],
    ["a name that is half a surrogate pair", { secret: "x", device: { ...unlockedPhone, name: "\ud83d" } }],
    ["an app lock that is a string", { secret: "x", device: { ...unlockedPhone, appLock: "true" } }],
  ])("a QR approval is refused with 400 for %s", async (_, body) => {
    expect((await phone.post(`${challenges}/${crypto.randomUUID()}/approve`, body)).status).toBe(400);
  });

  test.each(["%00", "none", "a%0d%0ab"])(
    "a QR approval or poll is refused with 404 for a malformed id (%s)",
    async (id) => {
      const body = { secret: "x", device: unlockedPhone };
      expect((await phone.post(`${challenges}/${id}/approve`, body)).status).toBe(404);
      expect((await browser.get(`${challenges}/${id}?secret=x`)).status).toBe(404);
      expect((await browser.get(`/api/v1/auth/mfa/mobile/challenges/${id}?secret=x`)).status).toBe(404);
    },
  );

  test("a QR approval is refused with 403 for another account, and with 404 for a wrong secret or id", async () => {
    const begun = await begin();
    const other = await createPerson();
    try {
      expect((await approve(await phoneOf(other), begun)).status).toBe(403);
    } finally {
      await deletePerson(other);
    }
    expect((await approve(phone, { ...begun, secret: "wrong" })).status).toBe(404);
    expect((await approve(phone, { ...begun, id: crypto.randomUUID() })).status).toBe(404);
    expect((await approve(phone, { ...begun, id: "no-uuid" })).status).toBe(404);
    expect((await poll(browser, begun)).body.status).toBe("created");
  });

  test("a QR approval is refused with 409 after an approval or rejection, and with 410 after expiry", async () => {
    const first = await begin();
    expect((await approve(phone, first)).status).toBe(200);
    expect(await approve(phone, first)).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    const second = await begin();
    expect(await phone.post(`${challenges}/${second.id}/reject`, { secret: second.secret })).toMatchObject({
      status: 200,
      body: { status: "rejected" },
    });
    expect((await approve(phone, second)).status).toBe(409);
    expect((await poll(browser, second)).body).toEqual({ status: "rejected" });
    const third = await begin();
    await expire(third);
    expect(await approve(phone, third)).toMatchObject({ status: 410, body: { code: "GONE" } });
    expect((await phone.post(`${challenges}/${third.id}/reject`, { secret: third.secret })).status).toBe(410);
    expect((await poll(browser, third)).body).toEqual({ status: "expired" });
  });

  test("a QR approval is refused if it comes from a browser or without a session", async () => {
    const begun = await begin();
    const body = { secret: begun.secret, device: unlockedPhone };
    const path = `${challenges}/${begun.id}/approve`;
    expect((await browser.postJson(path, body)).status).toBe(403);
    expect((await openBrowser(base).postJson(path, body)).status).toBe(401);
    const token = tokenOf(browser);
    const own = await fetch(new URL(path, base), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(own.status).toBe(403);
  });

  test("a QR approval is refused if the phone's session has yet to pass a second factor", async () => {
    const { person, browser, phone } = await own();
    const begun = await begin(browser);
    await requireMfa(person);
    expect(await approve(phone, begun)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
  });
});

describe("polling a QR challenge", () => {
  shareOne();

  test("polling a QR challenge consumes nothing before the approval, and a HEAD request consumes nothing after it", async () => {
    const begun = await begin();
    for (const _ of [1, 2]) expect((await poll(browser, begun)).body).toEqual({ status: "created" });
    await approve(phone, begun);
    const head = await fetch(new URL(`${challenges}/${begun.id}?secret=${begun.secret}`, base), {
      method: "HEAD",
      headers: { cookie: browser.cookie(), ...json },
    });
    expect([head.status, head.headers.getSetCookie()]).toEqual([200, []]);
    expect((await poll(browser, begun)).body.status).toBe("consumed");
  });

  test("polling a QR challenge returns 403 from another session, 404 with a wrong secret or id, and 401 without a session", async () => {
    const begun = await begin();
    await approve(phone, begun);
    const sibling = await enter(person);
    expect((await poll(sibling, begun)).status).toBe(403);
    expect((await poll(browser, { ...begun, secret: "wrong" })).status).toBe(404);
    expect((await poll(browser, { ...begun, id: crypto.randomUUID() })).status).toBe(404);
    expect((await poll(openBrowser(base), begun)).status).toBe(401);
    expect((await poll(browser, begun)).body.status).toBe("consumed");
  });

  test("polling an expired QR challenge returns expired, even if it was approved before", async () => {
    const begun = await begin();
    await approve(phone, begun);
    await expire(begun);
    expect((await poll(browser, begun)).body).toEqual({ status: "expired" });
  });

  test("polling a QR challenge waits while another session of the account is being minted, then consumes the challenge", async () => {
    const begun = await begin();
    await approve(phone, begun);
    const lease = "insert into private.mint_leases (user_id, expires_at) values ($1, now() + interval '1 minute')";
    await query(lease, [person.id]);
    for (const _ of [1, 2]) expect((await poll(browser, begun)).body).toEqual({ status: "approved" });
    await query("delete from private.mint_leases where user_id = $1", [person.id]);
    expect((await poll(browser, begun)).body.status).toBe("consumed");
  });

  test("polling an approved QR challenge returns rejected and mints no session if the phone has since signed out", async () => {
    const { person, browser, phone } = await own();
    const begun = await begin(browser);
    await approve(phone, begun);
    await phone.signOut();
    expect((await poll(browser, begun)).body).toEqual({ status: "rejected" });
    expect(await sessionsOf(person)).toHaveLength(1);
  });

  test("polling an approved QR challenge returns 401 if the browser has since signed out", async () => {
    const { browser, phone } = await own();
    const begun = await begin(browser);
    await approve(phone, begun);
    const cookie = browser.cookie();
    await browser.post("/logout", {});
    expect((await poll(openBrowser(base, { cookie }), begun)).status).toBe(401);
  });

  describe("a delayed QR poll", () => {
    let web: WatchedWeb;
    beforeAll(async () => {
      web = await startWatchedWeb(supabase, vaultSettings());
    });
    afterAll(() => web.stop());

    test.each([
      ["logout of all accounts", "/api/v1/auth/accounts/logout-all", "GET", 401],
      ["logout of this account", "/api/v1/auth/accounts/logout", "GET", 401],
      ["logout of all accounts, with a form", "/api/v1/auth/accounts/logout-all", "POST", 302],
    ])(
      "a QR poll that finishes after another tab signed out does not sign in: %s",
      async (_, logout, method, status) => {
        const { person, browser, phone } = await own();
        await web.trouble({ holds: "continue_account_session" });
        await browser.post("/qr", { intent: "create" });
        const { text } = await browser.get("/qr");
        const [, id = "", secret = ""] = /challenges\/([0-9a-f-]{36})\?secret=([\w-]+)/.exec(text) ?? [];
        await approve(phone, { id, secret, payload: "", expiresAt: "" });
        const tab = openBrowser(web.base, { cookie: browser.cookie() });
        const late =
          method === "GET" ? tab.get(`${challenges}/${id}?secret=${secret}`) : tab.post("/qr", { intent: "continue" });
        await web.held();
        expect((await browser.postJson(logout, {})).status).toBe(200);
        web.release();
        const answer = await late;
        expect([answer.status, answer.location]).toEqual([status, method === "GET" ? null : "/login"]);
        expect((await tab.get("/api/v1/auth/session")).status).toBe(401);
        expect(await sessionsOf(person)).toEqual([phone.sessionId]);
        const devices = await query("select from private.account_devices where active_user_id = $1", [person.id]);
        const entries = await query("select from private.account_vault_entries where user_id = $1", [person.id]);
        expect([devices, entries]).toEqual([[], []]);
      },
      60_000,
    );

    test("a QR poll that finishes after another tab switched accounts keeps the other tab's account active", async () => {
      const { person, browser, phone } = await own();
      const other = await createPerson();
      made.push(other);
      await browser.post("/add-account", { email: other.email, password: other.password });
      const switchTo = (by: Browser, { id: accountId }: Person) =>
        by.postJson("/api/v1/auth/accounts/switch", { accountId });
      const whoIs = async (by: Browser) => JSON.parse((await by.get("/api/v1/auth/session")).text).user?.id;
      expect((await switchTo(browser, person)).status).toBe(200);
      const begun = await begin(browser);
      await approve(phone, begun);
      await web.trouble({ holds: "continue_account_session" });
      // The poll's response reaches the browser last. `tab` stands for the browser with the cookies of that response.
      const tab = openBrowser(web.base, { cookie: browser.cookie() });
      const late = tab.get(`${challenges}/${begun.id}?secret=${begun.secret}`);
      await web.held();
      expect((await switchTo(browser, other)).status).toBe(200);
      web.release();
      expect((await late).status).toBe(200);
      expect(await whoIs(tab)).toBe(other.id);
      expect((await switchTo(tab, person)).status).toBe(200);
      expect(await whoIs(tab)).toBe(person.id);
      expect(await sessionsOf(person)).toHaveLength(2);
    }, 60_000);
  });

  test.each(["created", "rejected", "expired"])(
    "polling with the second step pending returns 403 MFA_REQUIRED, and doesn't reveal that a challenge is %s",
    async (state) => {
      const { person, browser, phone } = await own();
      const begun = await begin(browser);
      if (state === "rejected") await phone.post(`${challenges}/${begun.id}/reject`, { secret: begun.secret });
      if (state === "expired") await expire(begun);
      expect(await poll(browser, begun)).toEqual({ status: 200, body: { status: state } });
      await requireMfa(person);
      expect(await poll(browser, begun)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
      const head = await fetch(new URL(`${challenges}/${begun.id}?secret=${begun.secret}`, base), {
        method: "HEAD",
        headers: { cookie: browser.cookie() },
      });
      expect(head.status).toBe(403);
      expect(await phone.get(`${challenges}/${begun.id}?secret=${begun.secret}`)).toMatchObject({
        status: 403,
        body: { code: "MFA_REQUIRED" },
      });
    },
  );

  test("polling an approved QR challenge returns 403 MFA_REQUIRED if MFA has since become required", async () => {
    const { person, browser, phone } = await own();
    const begun = await begin(browser);
    await approve(phone, begun);
    await requireMfa(person);
    expect(await poll(browser, begun)).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
  });
});

describe("the QR page", () => {
  shareOne();

  test("the QR page consumes the challenge only through its button, never by loading, and continues to the destination", async () => {
    const page = "/qr?returnUrl=%2Fworkspaces";
    expect((await browser.get(page)).words).toContain("Show QR code");
    expect((await browser.post(page, { intent: "create" })).location).toBe(page);
    const { text } = await browser.get(page);
    const [, id = "", secret = ""] = /challenges\/([0-9a-f-]{36})\?secret=([\w-]+)/.exec(text) ?? [];
    const before = (await browser.session()).sessionId;
    expect((await browser.post(page, { intent: "continue" })).location).toBe(page);
    await approve(phone, { id, secret, payload: "", expiresAt: "" });
    for (const _ of [1, 2, 3]) expect((await browser.get(page)).words).toContain("Approved on your phone");
    expect((await browser.session()).sessionId).toBe(before);
    expect((await browser.post(page, { intent: "continue" })).location).toBe("/workspaces");
    expect((await browser.session()).sessionId).not.toBe(before);
    expect((await browser.get(page)).words).toContain("Show QR code");
  });

  test("the QR page shows that a code was rejected or has expired, and offers a new one", async () => {
    await browser.post("/qr", { intent: "create" });
    await query("update private.login_challenges set status = 'rejected' where user_id = $1", [person.id]);
    expect((await browser.get("/qr")).words).toMatch(/The request was rejected.*Show a new code/);
    await browser.post("/qr", { intent: "create" });
    await query(
      `update private.login_challenges set created_at = created_at - (expires_at - now()), expires_at = now()
       where user_id = $1 and status = 'created'`,
      [person.id],
    );
    expect((await browser.get("/qr")).words).toMatch(/expired.*Show a new code/);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example"])(
    "the QR page does not redirect to %s",
    async (target) => {
      const { text } = await browser.get(`/qr?${new URLSearchParams({ returnUrl: target })}`);
      expect(text).not.toContain('href="https://evil');
      expect(text).not.toContain('href="//evil');
    },
  );

  test("the page that the QR code links to asks any visitor to scan the code with the app", async () => {
    const { status, words } = await openBrowser(base).get("/qr/open");
    expect(status).toBe(200);
    expect(words).toMatch(/Scan the code with the .+ app/);
  });
});
