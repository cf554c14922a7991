import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { type Account, createAccount } from "../../scripts/test/account.ts";
import { enter } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { openBrowser } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";
import { freshSignInMs } from "./user.ts";

const { base } = readStack();
const path = "/api/v1/users/me/sessions";
const freshSeconds = freshSignInMs / 1_000;
let account: Account;

beforeEach(async () => {
  account = await createAccount();
});
afterEach(() => account.remove());

const credentials = () => ({ email: account.email, password: account.password });

interface Listed {
  id: string;
  current: boolean;
  userAgent: string | null;
}

async function call(token: string, { at = path, method = "GET" } = {}) {
  const response = await fetch(new URL(at, base), { method, headers: { authorization: `Bearer ${token}` } });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : null };
}
const list = async (token: string): Promise<Listed[]> => (await call(token)).body.sessions;
const subjectsOf = async (email: string) => (await mailsTo(email)).map(({ subject }) => subject);
const end = (token: string, id: string) => call(token, { at: `${path}/${id}`, method: "DELETE" });

describe("an account's sessions", () => {
  test("an account's sessions are listed with only the fields that the API documents, the current one first", async () => {
    const userAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0";
    const address = newAddress();
    await openBrowser(base, { userAgent, address }).post("/login", credentials());
    const sessions = await list(await account.signIn());
    expect(sessions.map(({ current }) => current)).toEqual([true, false]);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    const shape = { id: expect.any(String), createdAt: time, lastSeenAt: time, ip: address, place: null, aal: "aal1" };
    expect(sessions[1]).toEqual({ ...shape, current: false, userAgent });
    expect(Object.keys(sessions[0] ?? {}).sort()).toEqual([...Object.keys(shape), "current", "userAgent"].sort());
  });

  test("an account's sessions cannot be listed or ended by another account", async () => {
    const other = await createAccount();
    try {
      const [mine, theirs] = [await account.signIn(), await other.signIn()];
      const [target] = await list(theirs);
      expect((await end(mine, target?.id ?? "")).status).toBe(404);
      expect(await list(theirs)).toHaveLength(1);
    } finally {
      await other.remove();
    }
  });

  test("listing an account's sessions requires a session", async () => {
    expect((await fetch(new URL(path, base))).status).toBe(401);
  });
});

describe("signing out another device", () => {
  test("signing out another device ends its session immediately, and only one of several concurrent requests succeeds", async () => {
    const [here, there] = [await account.signIn(), await account.signIn()];
    const target = (await list(here)).find(({ current }) => !current)?.id ?? "";
    const answers = await callAtOnce(() => end(here, target));
    expect(answers.filter(({ status }) => status === 204)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(atOnce - 1);
    expect((await call(there)).status).toBe(401);
    expect(await list(here)).toHaveLength(1);
    const { body } = await call(here, { at: "/api/v1/users/me/security-events" });
    expect(body.events.map(({ kind }: { kind: string }) => kind)).toEqual(["session_revoked", "sign_in", "sign_in"]);
  });

  test.each([
    [freshSeconds - 30, 204],
    [freshSeconds + 1, 403],
  ])("with a sign-in %s seconds old, signing out another device returns %s", async (seconds, status) => {
    const here = await account.signInAged(seconds);
    await account.signIn();
    const target = (await list(here)).find(({ current }) => !current)?.id ?? "";
    const answer = await end(here, target);
    expect(answer.status).toBe(status);
    if (status === 403) expect(answer.body.code).toBe("STEP_UP_REQUIRED");
  });

  test("signing out one other device, or all of them, sends an email", async () => {
    const browser = await enter(credentials());
    await account.signIn();
    const target = (await list(await account.signIn())).find(({ current }) => !current)?.id ?? "";
    const form = "/settings/security/sessions";
    expect((await browser.post(form, { session: target })).status).toBe(303);
    await expect.poll(() => subjectsOf(account.email)).toContain("A device was signed out of your Gatehouse account");
    expect((await browser.post(form, { session: "others" })).status).toBe(303);
    await expect.poll(() => subjectsOf(account.email)).toContain("Your other devices were signed out of Gatehouse");
  });

  test("signing out the current device requires no fresh sign-in and sends no email", async () => {
    const here = await account.signInAged(freshSeconds + 60);
    const [target] = await list(here);
    expect((await end(here, target?.id ?? "")).status).toBe(204);
    expect((await call(here)).status).toBe(401);
    expect(await subjectsOf(account.email)).toEqual([]);
  });

  test.each(["6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11", "nonsense", "%00"])(
    "signing out the unknown session %s returns 404",
    async (id) => {
      expect((await end(await account.signIn(), id)).status).toBe(404);
    },
  );
});

describe("the activity log API", () => {
  const at = "/api/v1/users/me/security-events";
  const idsOf = (body: { events: { id: string }[] }) => body.events.map(({ id }) => id);

  test("the activity log is paginated without losing or repeating an entry", async () => {
    for (let visit = 0; visit < 5; visit += 1) await openBrowser(base).post("/login", credentials());
    const token = await account.signIn();
    const whole = await call(token, { at });
    expect(whole.body).toMatchObject({ nextCursor: null });
    expect(whole.body.events).toHaveLength(6);
    expect(whole.body.events[0]).toMatchObject({ kind: "sign_in", method: "password", device: null });
    expect(whole.body.events[1]).toMatchObject({
      kind: "sign_in",
      method: "password",
      device: "Unknown browser",
      details: {},
    });
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const query: string = new URLSearchParams({ limit: "2", ...(cursor ? { cursor } : {}) }).toString();
      const { body } = await call(token, { at: `${at}?${query}` });
      seen.push(...idsOf(body));
      cursor = body.nextCursor;
    }
    expect(seen).toEqual(idsOf(whole.body));
  });

  test.each([
    ["limit=1", 200],
    ["limit=0", 400],
    ["limit=100", 200],
    ["limit=101", 400],
    ["limit=x", 400],
    ["cursor=nonsense", 400],
    [`cursor=${Buffer.from('["2026-01-01T00:00:00Z","x,or(id.gt.0)"]').toString("base64url")}`, 400],
    [`cursor=${Buffer.from('["2026-01-01T00:00:00Z),or(a","x"]').toString("base64url")}`, 400],
  ])("a request for the activity log with the query %s returns %s", async (query, status) => {
    const answer = await call(await account.signIn(), { at: `${at}?${query}` });
    expect(answer.status).toBe(status);
    if (status === 400) expect(answer.body.code).toBe("INVALID_REQUEST");
  });

  test("the activity log is hidden from other accounts", async () => {
    await openBrowser(base).post("/login", credentials());
    const other = await createAccount();
    try {
      expect((await call(await other.signIn(), { at })).body.events).toHaveLength(1);
    } finally {
      await other.remove();
    }
  });
});
