import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  signIn,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { type AuthenticatorApp, codeOf, wrongCodesOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";

const { base, supabase } = readStack();
let person: Person;
let phone: AuthenticatorApp;
let tablet: AuthenticatorApp;

beforeEach(async () => {
  person = await createPerson();
  const [first, second] = await insertAuthenticators(person, ["Phone", "Tablet"]);
  if (!first || !second) throw new Error("no apps");
  phone = first;
  tablet = second;
});
afterEach(() => deletePerson(person));

const answerWith = ({ factorId }: AuthenticatorApp, code: string) => ({ factorId, code });

describe("the second-step challenge", () => {
  test("the second-step challenge follows the sign-in immediately and leads to the original destination", async () => {
    const browser = await signIn(person, { returnUrl: "/workspaces?sort=name" });
    expect(browser.location).toBe("/mfa?returnUrl=%2Fworkspaces%3Fsort%3Dname");
    expect(await browser.session()).toMatchObject({ aal: "aal1", mfa: { required: true, satisfied: false } });
    const answer = await browser.post(browser.location ?? "", answerWith(phone, codeOf(phone)));
    expect(answer).toMatchObject({ status: 302, location: "/workspaces?sort=name" });
    expect(await browser.session()).toMatchObject({ aal: "aal2", mfa: { required: true, satisfied: true } });
    expect((await browser.get("/mfa?returnUrl=%2Fworkspaces")).location).toBe("/workspaces");
  });

  test("the MFA challenge accepts only a code of the chosen authenticator app, and allows spaces in the code", async () => {
    const browser = await enter(person);
    const code = codeOf(tablet);
    expect((await browser.post("/mfa", answerWith(phone, code))).status).toBe(400);
    const answer = await browser.post("/mfa", answerWith(tablet, ` ${code.slice(0, 3)} ${code.slice(3)} `));
    expect(answer).toMatchObject({ status: 302, location: "/" });
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])(
    "the challenge never leads to a URL like %s",
    async (target) => {
      const browser = await enter(person);
      const page = `/mfa?${new URLSearchParams({ returnUrl: target })}`;
      expect((await browser.get(page)).text).not.toMatch(/href="[^"]*(evil|javascript)/);
      const answer = await browser.post(page, answerWith(phone, codeOf(phone)));
      expect(answer).toMatchObject({ status: 302, location: "/" });
    },
  );

  test("the challenge refuses a code from another account's authenticator app", async () => {
    const other = await createPerson();
    try {
      const [theirs] = await insertAuthenticators(other, ["Theirs"]);
      if (!theirs) throw new Error("no app");
      const browser = await enter(person);
      expect((await browser.post("/mfa", answerWith(theirs, codeOf(theirs)))).status).toBe(400);
      expect(await browser.session()).toMatchObject({ aal: "aal1" });
    } finally {
      await deletePerson(other);
    }
  });

  test.each(["", "12345", "1234567", "abcdef", "１２３４５６"])(
    "the challenge explains which code to enter after the malformed code %j",
    async (code) => {
      const browser = await enter(person);
      const { status, text } = await browser.post("/mfa", answerWith(phone, code));
      expect(status).toBe(400);
      expect(text).toMatch(/Enter the (6 digits|code) from your app/);
    },
  );

  test("the challenge leads a visitor without a session to the sign-in page, and keeps the destination", async () => {
    const browser = openBrowser(base);
    expect((await browser.get("/mfa?returnUrl=%2Fworkspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
  });

  test("passing the challenge ends the user's other sessions that have not passed a challenge", async () => {
    const [one, other] = [await enter(person), await enter(person)];
    expect((await one.post("/mfa", answerWith(phone, codeOf(phone)))).location).toBe("/");
    expect((await other.get("/mfa")).location).toBe("/login");
  });
});

describe("a code from an authenticator app", () => {
  test("refuses a used code in the next session, and accepts the next code", async () => {
    const code = codeOf(phone);
    expect((await (await enter(person)).post("/mfa", answerWith(phone, code))).location).toBe("/");
    const browser = await enter(person);
    const again = await browser.post("/mfa", answerWith(phone, code));
    expect(again.status).toBe(400);
    expect(again.text).toContain("That code was already used");
    expect((await browser.post("/mfa", answerWith(phone, codeOf(phone, 1)))).location).toBe("/");
  });

  test("refuses a used code even if the authenticator's id is sent in uppercase", async () => {
    const code = codeOf(phone);
    expect((await (await enter(person)).post("/mfa", answerWith(phone, code))).location).toBe("/");
    const browser = await enter(person);
    const again = await browser.post("/mfa", { factorId: phone.factorId.toUpperCase(), code });
    expect(again.status).toBe(400);
    expect(again.text).toContain("That code was already used");
    expect(await browser.session()).toMatchObject({ aal: "aal1" });
  });

  test("a code counts only once if one session sends it many times concurrently", async () => {
    const browser = await enter(person);
    const code = codeOf(phone);
    const verified = async () =>
      (
        await query("select from auth.mfa_challenges where factor_id = $1 and verified_at is not null", [
          phone.factorId,
        ])
      ).length;
    const before = await verified();
    const answers = await callAtOnce(() => browser.post("/mfa", answerWith(phone, code)));
    expect(await verified()).toBe(before + 1);
    // After one request verifies the session, later requests with the older cookie can also get 302.
    expect(answers.map(({ status }) => status)).toContain(302);
    for (const { status } of answers) expect([302, 400, 429]).toContain(status);
  });

  test("only one of many sessions that send the same code concurrently is verified", async () => {
    const browsers = await Promise.all(Array.from({ length: 10 }, () => enter(person)));
    const code = codeOf(phone);
    await Promise.all(browsers.map((browser) => browser.post("/mfa", answerWith(phone, code))));
    const open = await Promise.all(browsers.map(async (browser) => (await browser.session()).mfa?.satisfied === true));
    expect(open.filter(Boolean)).toHaveLength(1);
  });

  test("only one of many concurrent callers claims a code", async () => {
    const service = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
    const code_hash = crypto.randomUUID().replaceAll("-", "").repeat(2);
    const claims = await callAtOnce(async () =>
      service.schema("private").rpc("claim_mfa_code", { code_hash, session_id: crypto.randomUUID() }),
    );
    expect(claims.map(({ error }) => error)).toEqual(Array(atOnce).fill(null));
    expect(claims.filter(({ data }) => data === true)).toHaveLength(1);
  });

  test("refuses even the right code after 5 wrong ones", async () => {
    const browser = await enter(person);
    const wrong = wrongCodesOf(phone);
    for (const code of wrong.slice(0, 5)) {
      const answer = await browser.post("/mfa", answerWith(phone, code));
      expect(answer.status).toBe(400);
      expect(answer.text).toContain("That code is incorrect");
    }
    for (const code of [wrong[5] ?? "", codeOf(phone)]) {
      const answer = await browser.post("/mfa", answerWith(phone, code));
      expect(answer.status).toBe(429);
      expect(answer.text).toMatch(/Too many attempts.*Try again in/);
    }
  });

  test("accepts the right code after 4 wrong ones", async () => {
    const browser = await enter(person);
    for (const code of wrongCodesOf(phone).slice(0, 4)) await browser.post("/mfa", answerWith(phone, code));
    expect((await browser.post("/mfa", answerWith(phone, codeOf(phone)))).location).toBe("/");
  });
});

describe("a session that still needs its second factor", () => {
  test("an API request from a session without its second factor gets 403 MFA_REQUIRED, and the session stays at AAL1", async () => {
    const browser = await enter(person);
    const response = await fetch(new URL("/api/workspaces/00000000-0000-4000-8000-000000000000", base), {
      method: "DELETE",
      headers: { cookie: browser.cookie(), "sec-fetch-site": "same-origin" },
    });
    expect([response.status, await response.json()]).toMatchObject([403, { code: "MFA_REQUIRED" }]);
    expect(await browser.session()).toMatchObject({ aal: "aal1" });
  });

  test("a session without its second factor can open the sign-in page and sign out", async () => {
    const browser = await enter(person);
    expect((await browser.get("/login")).status).toBe(200);
    expect((await browser.post("/logout", {})).location).toBe("/login");
    expect((await browser.get("/api/v1/auth/session")).status).toBe(401);
  });

  test("a session without its second factor can't read anything from the Data API", async () => {
    const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
    const { data } = await auth.signInWithPassword(person);
    const token = data.session?.access_token ?? "";
    const rows = await fetch(`${supabase.url}/rest/v1/profiles?select=id`, {
      headers: { apikey: supabase.publishableKey, Authorization: `Bearer ${token}` },
    });
    expect(await rows.json()).toEqual([]);
  });
});
