import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
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
  signIn,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { type AuthenticatorApp, codeOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWatchedWeb } from "../testing/watched-web.ts";
import { recoveryCodeHash } from "./recovery-codes.ts";

const toEnrollment = "/mfa/enroll?recovered=&returnUrl=%2Fworkspaces";
const recoveryPage = "/mfa/recovery?returnUrl=%2Fworkspaces";
let person: Person;
let app: AuthenticatorApp;
let codes: string[];

beforeEach(async () => {
  person = await createPerson();
  const [enrolled] = await insertAuthenticators(person, ["Phone", "Tablet"]);
  if (!enrolled) throw new Error("no app");
  app = enrolled;
  codes = await newCodes(await signInWithCode(app));
});
afterEach(() => deletePerson(person));

async function signInWithCode(by: AuthenticatorApp, steps = 0): Promise<SignedInBrowser> {
  const browser = await enter(person);
  const { location } = await browser.post("/mfa", { factorId: by.factorId, code: codeOf(by, steps) });
  expect(location).toBe("/");
  return browser;
}

async function newCodes(browser: SignedInBrowser): Promise<string[]> {
  const { text } = await browser.post("/mfa/recovery-codes", {});
  return [...text.matchAll(/<li[^>]*>([0-9A-Z]{4}(?:-[0-9A-Z]{4}){3})<\/li>/g)].map(([, code = ""]) => code);
}

const spend = (browser: SignedInBrowser, code = codes[0] ?? "") => browser.post(recoveryPage, { code });

describe("recovery codes", () => {
  test("ten different recovery codes are shown only when they are created", async () => {
    expect(new Set(codes).size).toBe(10);
    const browser = await signInWithCode(app, 1);
    for (const page of ["/mfa/recovery-codes", "/settings/security"]) {
      const { text } = await browser.get(page);
      for (const code of codes) expect(text).not.toContain(code);
    }
  });

  test("the page with new recovery codes says that earlier codes no longer work, but only if there were earlier codes", async () => {
    const browser = await signInWithCode(app, 1);
    const replaced = "Your earlier codes no longer work.";
    expect((await browser.post("/mfa/recovery-codes", {})).words).toContain(replaced);
    await query("delete from private.mfa_recovery_codes where user_id = $1", [person.id]);
    expect((await browser.post("/mfa/recovery-codes", {})).words).not.toContain(replaced);
  });

  test("stored hashes of recovery codes reveal neither a code nor whether two accounts have the same one", async () => {
    const rows = await query<{ row: string }>(
      "select to_jsonb(c)::text as row from private.mfa_recovery_codes c where user_id = $1",
      [person.id],
    );
    expect(rows).toHaveLength(10);
    for (const { row } of rows) for (const code of codes) expect(row).not.toContain(code.replaceAll("-", ""));
  });

  test("new recovery codes replace the earlier ones", async () => {
    const renewed = await newCodes(await signInWithCode(app, 1));
    expect(renewed.filter((code) => codes.includes(code))).toEqual([]);
    const browser = await enter(person);
    expect((await spend(browser)).status).toBe(400);
    expect((await spend(browser, renewed[9])).location).toBe(toEnrollment);
  });
});

describe("using a recovery code", () => {
  test("a recovery code removes the authenticators, does not count as a second factor, and leads to enrollment", async () => {
    const browser = await enter(person);
    expect((await spend(browser)).location).toBe(toEnrollment);
    expect(await browser.session()).toMatchObject({ aal: "aal1" });
    expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toEqual([]);
    expect((await browser.get(toEnrollment)).text).toContain("Your authenticator apps were removed");
  });

  test("a recovery code signs a session in once, keeps the authenticators, and doesn't count as a step-up", async () => {
    const browser = await enter(person);
    const once = (by: SignedInBrowser) => by.post(recoveryPage, { recoveryCode: codes[0] ?? "", intent: "once" });
    expect((await once(browser)).location).toBe("/workspaces");
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect(await browser.session()).toMatchObject({ aal: "aal1", mfa: { satisfied: true } });
    expect((await browser.get("/settings/security/password")).location).toMatch(/^\/step-up/);
    expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toHaveLength(2);
    expect((await once(await enter(person))).status).toBe(400);
    await expect
      .poll(async () => (await mailsTo(person.email)).map(({ subject }) => subject), { timeout: 10_000 })
      .toContain("A recovery code was used to sign in to your Gatehouse account");
  });

  test("a server of release 0.3.0, which removes the authenticators for every code, does not read the page's form", async () => {
    const { text } = await (await enter(person)).get(recoveryPage);
    expect(text).toContain('name="recoveryCode"');
    expect(text).not.toContain('name="code"');
  });

  test("logs the use of a recovery code and notifies the owner by email", async () => {
    await spend(await enter(person));
    const events = await query("select kind, method from public.security_events where user_id = $1 and kind = $2", [
      person.id,
      "recovery_code_used",
    ]);
    expect(events).toEqual([{ kind: "recovery_code_used", method: "recovery_code" }]);
    await expect
      .poll(async () => (await mailsTo(person.email)).map(({ subject }) => subject), { timeout: 10_000 })
      .toContain("A recovery code was used for your Gatehouse account");
  });

  test("using a recovery code ends every other session, including one that has not passed the MFA challenge yet", async () => {
    const [elsewhere, waiting, browser] = [await signInWithCode(app, 1), await enter(person), await enter(person)];
    expect((await spend(browser)).location).toBe(toEnrollment);
    expect((await elsewhere.get("/workspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
    expect((await waiting.get("/workspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
  });

  test("accepts recovery codes in lower case, with spaces, with O for 0 and with I or l for 1", async () => {
    const [code = ""] = codes;
    const typed = code.toLowerCase().replaceAll("-", " ").replaceAll("0", "O").replaceAll("1", "l");
    expect((await spend(await enter(person), typed)).location).toBe(toEnrollment);
  });

  test("refuses a used recovery code after a new enrollment", async () => {
    await spend(await enter(person));
    await insertAuthenticators(person, ["New phone"]);
    const browser = await enter(person);
    const again = await spend(browser);
    expect(again.status).toBe(400);
    expect(again.text).toContain("That code is incorrect or was already used");
    expect((await spend(browser, codes[1])).location).toBe(toEnrollment);
  });

  test("a recovery code counts only once when it is sent many times concurrently", async () => {
    const browser = await enter(person);
    const answers = await callAtOnce(() => spend(browser));
    expect(answers.filter(({ location }) => location === toEnrollment)).toHaveLength(1);
    const events = await query("select from public.security_events where user_id = $1 and kind = $2", [
      person.id,
      "recovery_code_used",
    ]);
    expect(events).toHaveLength(1);
  });

  test("an account with an interrupted recovery stays inaccessible until the session that started the recovery completes it", async () => {
    const browser = await enter(person);
    const { sessionId } = await browser.session();
    const hash = recoveryCodeHash(codes[0]?.replaceAll("-", "") ?? "", person.id);
    await query("select private.end_mfa_recovery(private.begin_mfa_recovery($1, $2, $3), false)", [
      person.id,
      sessionId,
      hash,
    ]);
    const elsewhere = await enter(person);
    // The last state of a recovery before it is recorded as complete.
    await query("delete from auth.mfa_factors where user_id = $1", [person.id]);
    expect((await elsewhere.get("/workspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect((await elsewhere.get("/mfa")).words).toContain("This account is being reset");
    expect((await elsewhere.get("/mfa/enroll")).location).toBe("/mfa");
    expect((await browser.get("/mfa?returnUrl=%2Fworkspaces")).location).toBe(recoveryPage);
    expect((await browser.get(recoveryPage)).words).toContain("Finish removing your authenticator apps");
    expect((await browser.post(recoveryPage, { finish: "yes" })).location).toBe(toEnrollment);
    expect((await browser.get("/workspaces")).status).toBe(200);
  });

  test("refuses a recovery code of another account", async () => {
    const other = await createPerson();
    try {
      await insertAuthenticators(other, ["Theirs"]);
      const browser = await enter(other);
      expect((await spend(browser)).status).toBe(400);
      expect(await browser.session()).toMatchObject({ mfa: { satisfied: false } });
    } finally {
      await deletePerson(other);
    }
  });

  test("refuses even the right recovery code after 5 wrong ones", async () => {
    const browser = await enter(person);
    for (let attempt = 0; attempt < 5; attempt += 1) {
      expect((await spend(browser, "7KQ2-M9XA-04TC-HW5E")).status).toBe(400);
    }
    const late = await spend(browser);
    expect(late.status).toBe(429);
    expect(late.text).toContain("Too many attempts");
  });

  test("accepts the right recovery code after 4 wrong ones", async () => {
    const browser = await enter(person);
    for (let attempt = 0; attempt < 4; attempt += 1) await spend(browser, "7KQ2-M9XA-04TC-HW5E");
    expect((await spend(browser)).location).toBe(toEnrollment);
  });

  test.each(["", "7KQ2", "7KQ2-M9XA-04TC-HW5U", "7KQ2-M9XA-04TC-HW5E-7"])(
    "explains the format of recovery codes when given %j",
    async (code) => {
      const { status, text } = await spend(await enter(person), code);
      expect(status).toBe(400);
      expect(text).toMatch(/Enter a recovery code/);
    },
  );

  test("refuses recovery to a session that passed the challenge, and to an account without an authenticator", async () => {
    expect((await spend(await signInWithCode(app, 1))).location).toBe("/workspaces");
    const other = await createPerson();
    try {
      expect((await spend(await signIn(other))).location).toBe("/workspaces");
    } finally {
      await deletePerson(other);
    }
    expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toHaveLength(2);
  });
});

describe("an account that requires an authenticator", () => {
  test("with required MFA, a person who used a recovery code must enroll a new authenticator before any other page opens", async () => {
    await requireMfa(person);
    const browser = await signIn(person, { returnUrl: "/workspaces" });
    expect(browser.location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect((await spend(browser)).location).toBe(toEnrollment);
    expect(await browser.session()).toMatchObject({ aal: "aal1", mfa: { required: true, satisfied: false } });
    for (const page of ["/", "/workspaces", "/settings/security"]) {
      expect((await browser.get(page)).location).toMatch(/^\/mfa\/enroll/);
    }
    expect((await browser.get("/mfa/enroll")).text).not.toContain("Not now");

    const started = await browser.post(toEnrollment, { step: "start" });
    const [, secret = ""] = /name="secret" value="([A-Z2-7]+)"/.exec(started.text) ?? [];
    const [, factorId = ""] = /name="factorId" value="([0-9a-f-]+)"/.exec(started.text) ?? [];
    // The recovery moved the account's session boundary to the current second. Only proofs from a later second count.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    const code = codeOf({ secret });
    const { location } = await browser.post(toEnrollment, { step: "verify", factorId, secret, name: "New", code });
    expect(location).toBe("/workspaces");
    expect((await browser.get("/workspaces")).status).toBe(200);
  });

  test("using a recovery code invalidates earlier identity checks", async () => {
    await requireMfa(person);
    await spend(await enter(person));
    const [policy] = await query<{ boundary: number; now: number; required: boolean }>(
      `select (raw_app_meta_data #> '{platform_required_mfa,boundary}')::int as boundary,
         (raw_app_meta_data #> '{platform_required_mfa,required}')::boolean as required,
         extract(epoch from now())::int as now
       from auth.users where id = $1`,
      [person.id],
    );
    expect(policy?.required).toBe(true);
    expect((policy?.now ?? 0) - (policy?.boundary ?? 0)).toBeLessThan(30);
  });
});

test("after a lost answer, a recovery code works again, as its page says", async () => {
  const web = await startWatchedWeb(readStack().supabase, vaultSettings());
  const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  await web.trouble({ losesAnswer: "/rpc/begin_mfa_recovery" });
  const lost = await browser.post(recoveryPage, { code: codes[0] ?? "" });
  expect([lost.status, lost.words.includes("Your code still works. Try again in a minute.")]).toEqual([503, true]);
  await query(
    "update private.mfa_recovery_codes set lease_expires_at = now() where user_id = $1 and used_at is not null",
    [person.id],
  );
  expect((await browser.post(recoveryPage, { code: codes[0] ?? "" })).location).toBe(toEnrollment);
  await web.stop();
});

test("after a lost answer, signing in once doesn't promise that the recovery code still works", async () => {
  const web = await startWatchedWeb(readStack().supabase, vaultSettings());
  const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  await web.trouble({ losesAnswer: "/rpc/sign_in_with_recovery_code" });
  const once = (code = "") => browser.post(recoveryPage, { recoveryCode: code, intent: "once" });
  const lost = await once(codes[0]);
  expect([lost.status, lost.words.includes("If your code is refused then, use another one.")]).toEqual([503, true]);
  expect((await once(codes[0])).status).toBe(400);
  expect((await once(codes[1])).location).toBe("/workspaces");
  await web.stop();
});
