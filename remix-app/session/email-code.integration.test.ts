import { createClient } from "@supabase/supabase-js";
import { beforeEach, describe, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { borrowFaultyWeb } from "../../scripts/test/faulty-web.ts";
import {
  createPerson,
  deletePerson,
  endMailTurns,
  insertAuthenticators,
  type Person,
  passMailPause,
  query,
  signedInLongAgo,
  signIn,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";
import { answerStepMs } from "./even-answers.ts";

const { base, supabase } = readStack();
const wrong = "That code is incorrect, was already used or has expired.";
let person: Person;

beforeEach(async () => {
  person = await createAccount();
  return () => deletePerson(person);
});

/**
 * Creates an account that was confirmed a day ago. If an email had just confirmed the account, the server would replace
 * its password at sign-in.
 */
async function createAccount(): Promise<Person> {
  const created = await createPerson();
  await query("update auth.users set email_confirmed_at = now() - interval '1 day' where id = $1", [created.id]);
  return created;
}

/** Waits for `mails` emails. @returns the code in the newest one */
async function codeOf(email: string, { mails = 1 } = {}): Promise<string> {
  await expect.poll(async () => (await mailsTo(email)).length).toBeGreaterThanOrEqual(mails);
  const [, code] = /(\d{10})/.exec((await mailsTo(email)).at(-1)?.text ?? "") ?? [];
  if (!code) throw new Error("the mail holds no code");
  return code;
}

async function askForCode(browser: Browser, email = person.email, fields: Record<string, string> = {}) {
  const answer = await browser.post("/login/code", { email, ...fields });
  expect(answer.status).toBe(302);
  return answer;
}

const enter = (browser: Browser, code: string, fields: Record<string, string> = {}) =>
  browser.post("/login/code", { code, ...fields });
const sessionsOf = ({ id }: Person) =>
  query<{ aal: string; id: string }>("select id, aal::text from auth.sessions where user_id = $1", [id]);
const sessionOf = async (browser: Browser) => JSON.parse((await browser.get("/api/v1/auth/session")).text);

test("an emailed code signs in at AAL1 and keeps the destination, without JavaScript", async () => {
  const browser = openBrowser(base);
  expect((await browser.get("/login?returnUrl=%2Fworkspaces")).text).toContain(
    'formAction="/login/code?returnUrl=%2Fworkspaces"'.replace("formAction", "formaction"),
  );
  const sent = await askForCode(browser, person.email, { returnUrl: "/workspaces", password: "" });
  expect(sent.location).toBe("/login/code?returnUrl=%2Fworkspaces");
  const page = await browser.get(sent.location ?? "");
  expect(page.words).toContain(`If ${person.email[0]}•••@integration.gatehouse.test has an account`);
  expect(page.text).not.toContain(person.email);
  const code = await codeOf(person.email);
  const answer = await enter(browser, `${code.slice(0, 5)} ${code.slice(5)}`, { returnUrl: "/workspaces" });
  expect(answer).toMatchObject({ status: 302, location: "/workspaces" });
  expect(await sessionOf(browser)).toMatchObject({ user: { id: person.id }, aal: "aal1" });
  expect(browser.cookie()).toContain("gh_last_method=email_code");
  expect((await openBrowser(base, { cookie: "gh_last_method=email_code" }).get("/login")).words).toContain(
    "Email me a code Last used",
  );
  expect(
    await query("select kind, method from public.security_events where user_id = $1 and device is not null", [
      person.id,
    ]),
  ).toEqual([{ kind: "sign_in", method: "email_code" }]);
  expect((await browser.get("/settings/security/activity")).words).toContain("Code by email");
});

test("no response contains the password typed on the sign-in page", async () => {
  const address = newAddress();
  const browser = openBrowser(base, { address });
  const password = "typed before the button";
  const invalid = await browser.post("/login/code", { email: "not-an-email", password });
  expect([invalid.status, invalid.text.includes(password)]).toEqual([400, false]);
  for (let made = 0; made < 5; made += 1) {
    await query("select private.begin_attempt($1)", [JSON.stringify({ action: "mail", address, email: person.email })]);
  }
  const limited = await browser.post("/login/code", { email: person.email, password });
  expect([limited.status, limited.text.includes(password)]).toEqual([429, false]);
});

test("the response to a refused resend of an emailed code does not reveal the full email address", async () => {
  const address = newAddress();
  const browser = openBrowser(base, { address });
  await askForCode(browser);
  for (let made = 0; made < 4; made += 1) {
    await query("select private.begin_attempt($1)", [JSON.stringify({ action: "mail", address, email: person.email })]);
  }
  const refused = await browser.post("/login/code", { intent: "resend" });
  expect([refused.status, refused.text.includes(person.email)]).toEqual([429, false]);
});

test("the email with a sign-in code contains the code and no link", async () => {
  await askForCode(openBrowser(base));
  await codeOf(person.email);
  const [mail] = await mailsTo(person.email);
  expect(mail?.subject).toBe("Your Gatehouse sign-in code");
  expect(`${mail?.text} ${mail?.html}`).not.toMatch(/https?:|href|token_hash/);
});

describe("refused emailed codes", () => {
  let browser: Browser;
  beforeEach(async () => {
    browser = openBrowser(base);
    await askForCode(browser);
  });
  const expectWrong = async (code: string, by = browser) => {
    const answer = await enter(by, code);
    expect(answer.status).toBe(400);
    expect(answer.words).toContain(wrong);
  };

  test("after a wrong emailed code is refused, the right code still works", async () => {
    const code = await codeOf(person.email);
    await expectWrong(code === "0000000000" ? "0000000001" : "0000000000");
    expect((await enter(browser, code)).status).toBe(302);
  });

  test("an emailed code that was used in one browser is refused in another", async () => {
    const other = openBrowser(base);
    await askForCode(other);
    const code = await codeOf(person.email);
    expect((await enter(browser, code)).location).toBe("/");
    await expectWrong(code, other);
    expect(await sessionsOf(person)).toHaveLength(1);
  });

  test("an emailed code is refused if it has expired at the identity backend", async () => {
    await query("update auth.users set recovery_sent_at = now() - interval '61 minutes' where id = $1", [person.id]);
    await expectWrong(await codeOf(person.email));
  });

  test("an emailed code is refused if another code replaced it", async () => {
    const first = await codeOf(person.email);
    await passMailPause(person.email);
    expect((await browser.post("/login/code", { intent: "resend" })).location).toBe("/login/code?resent=");
    const second = await codeOf(person.email, { mails: 2 });
    await expectWrong(first);
    expect((await enter(browser, second)).status).toBe(302);
  });

  test("an emailed code is refused if it belongs to another account", async () => {
    const other = await createAccount();
    try {
      const theirs = openBrowser(base);
      await askForCode(theirs, other.email);
      await expectWrong(await codeOf(other.email));
      await expectWrong(await codeOf(person.email), theirs);
    } finally {
      await deletePerson(other);
    }
  });

  test.each(["", "12345", "12345678901", "abcdefghij"])(
    "an emailed code is refused if it is malformed: %j",
    async (code) => {
      expect((await enter(browser, code)).status).toBe(400);
      expect(await sessionsOf(person)).toEqual([]);
    },
  );

  test("an emailed code is refused in a browser that did not request it", async () => {
    const code = await codeOf(person.email);
    const [name = "", value = ""] = browser.cookie().split("=");
    const [text = "", signature = ""] = value.split(".");
    const forged = Buffer.from(JSON.stringify({ email: person.email, until: Date.now() + 60_000 })).toString(
      "base64url",
    );
    for (const cookie of ["", `${name}=${forged}.${signature}`, `${name}=${text}.`]) {
      expect(await enter(openBrowser(base, { cookie }), code)).toMatchObject({
        status: 302,
        location: "/login/code?expired=",
      });
    }
    expect((await openBrowser(base).get("/login/code?expired=")).words).toContain("The code has expired");
    expect(await sessionsOf(person)).toEqual([]);
  });

  test("an emailed code is refused for a banned account, with the same message as for a wrong code", async () => {
    const code = await codeOf(person.email);
    await query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [person.id]);
    await expectWrong(code);
  });

  test("an emailed code is refused from a client whose user agent names an attack tool", async () => {
    const code = await codeOf(person.email);
    const tool = openBrowser(base, { cookie: browser.cookie(), userAgent: "sqlmap/1.8" });
    expect((await enter(tool, code)).status).toBe(403);
    expect((await tool.post("/login/code", { email: person.email })).status).toBe(403);
  });
});

test("50 concurrent redemptions of one emailed code start only one session", async () => {
  const asked = openBrowser(base);
  await askForCode(asked);
  const code = await codeOf(person.email);
  // Each request has its own address, so that no rate limit applies.
  const answers = await callAtOnce(() => enter(openBrowser(base, { cookie: asked.cookie() }), code), { times: 50 });
  expect(answers.filter(({ status }) => status === 302)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 400)).toHaveLength(49);
  expect(await sessionsOf(person)).toHaveLength(1);
  expect(await mailsTo(person.email)).toHaveLength(1);
}, 60_000);

test("an emailed code that another request has just tried is not sent to the identity backend again", async () => {
  // Supabase Auth starts a session for each of 50 concurrent requests with one code.
  const { backend, web } = await borrowFaultyWeb();
  const browser = openBrowser(web.base);
  await askForCode(browser);
  const verifications = () => backend.calls.filter((call) => call === "POST /auth/v1/verify").length;
  const attempt = { allowed: true, attemptId: crypto.randomUUID(), needsBotChallenge: false };
  backend.attempts = { ...attempt, repeated: true };
  expect((await enter(browser, "1234567890")).words).toContain(wrong);
  expect(verifications()).toBe(0);
  backend.attempts = { ...attempt, repeated: false };
  expect((await enter(browser, "1234567890")).status).toBe(302);
  expect(verifications()).toBe(1);
});

describe("limits on emailed codes", () => {
  const exhaust = async (attempt: { action: string; address: string; email?: string }, times: number) => {
    for (let made = 0; made < times; made += 1)
      await query("select private.begin_attempt($1)", [JSON.stringify(attempt)]);
  };

  test("after five wrong emailed codes from one IP address, even the right code is refused", async () => {
    const address = newAddress();
    const { email } = person;
    const browser = openBrowser(base, { address });
    await askForCode(browser);
    const code = await codeOf(email);
    await exhaust({ action: "sign_in_code", address, email }, 4);
    expect((await enter(browser, "0000000000")).status).toBe(400);
    const refused = await enter(browser, code);
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    // The owner can still sign in from another IP address.
    const elsewhere = openBrowser(base, { cookie: browser.cookie() });
    expect((await enter(elsewhere, code)).status).toBe(302);
  });

  test("after four wrong emailed codes, the right one still signs in", async () => {
    const address = newAddress();
    const browser = openBrowser(base, { address });
    await askForCode(browser);
    await exhaust({ action: "sign_in_code", address, email: person.email }, 4);
    expect((await enter(browser, await codeOf(person.email))).status).toBe(302);
  });

  test("one IP address can request five sign-in codes in a row, for known and unknown emails alike", async () => {
    for (const email of [person.email, `unknown-${person.email}`]) {
      const address = newAddress();
      await exhaust({ action: "mail", address, email }, 4);
      const browser = openBrowser(base, { address });
      await askForCode(browser, email);
      expect((await browser.post("/login/code", { email })).status).toBe(429);
    }
  });

  test("a blocked IP address can neither request nor enter an emailed code", async () => {
    const address = newAddress();
    const browser = openBrowser(base, { address });
    await askForCode(browser);
    const code = await codeOf(person.email);
    await query(
      `insert into private.address_blocks (address, action, level, blocked_until)
       values (private.address_network($1), 'password', 1, now() + interval '1 minute')`,
      [address],
    );
    expect((await enter(browser, code)).status).toBe(429);
    expect((await browser.post("/login/code", { email: person.email })).status).toBe(429);
  });

  test("a recovery override for an email lifts the rate limit on entering that email's codes", async () => {
    const address = newAddress();
    const { email } = person;
    const browser = openBrowser(base, { address });
    await askForCode(browser);
    const code = await codeOf(email);
    await exhaust({ action: "sign_in_code", address, email }, 5);
    expect((await enter(browser, code)).status).toBe(429);
    await query(
      `insert into private.recovery_overrides (email, reason, created_by)
       select $1, 'lost the phone', id from auth.users where email = 'admin@gatehouse.test'`,
      [email],
    );
    expect((await enter(browser, "0000000000")).status).toBe(400);
    expect((await enter(browser, code)).status).toBe(302);
    const events = "select kind, outcome, user_id from private.recovery_events where email = $1 order by created_at";
    expect(await query(events, [email])).toEqual([
      { kind: "reject", outcome: "login_wrong", user_id: null },
      { kind: "login_bypass", outcome: "signed_in", user_id: person.id },
    ]);
  });

  test("a recovery override does not lift a ban for a sign-in by emailed code", async () => {
    const browser = openBrowser(base);
    await askForCode(browser);
    const code = await codeOf(person.email);
    await query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [person.id]);
    await query(
      `insert into private.recovery_overrides (email, reason, created_by)
       select $1, 'lost the phone', id from auth.users where email = 'admin@gatehouse.test'`,
      [person.email],
    );
    expect((await enter(browser, code)).words).toContain(wrong);
    expect(await sessionsOf(person)).toEqual([]);
  });
});

test("a wrong emailed code gets the same answer in the same time for known, banned and unknown emails", async () => {
  const banned = await createAccount();
  try {
    await query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [banned.id]);
    const answers = await Promise.all(
      [person.email, banned.email, `unknown-${person.email}`].map(async (email) => {
        const browser = openBrowser(base);
        await askForCode(browser, email);
        const began = performance.now();
        const { status, words, headers } = await enter(browser, "0000000000");
        expect(performance.now() - began).toBeGreaterThanOrEqual(answerStepMs - 1);
        return { status, words: words.replace(/\S•••/, ""), headers: [...headers.keys()].sort() };
      }),
    );
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
  } finally {
    await deletePerson(banned);
  }
});

test("no sign-in code is sent within 3 minutes of a reset email, so the reset link keeps working", async () => {
  const browser = openBrowser(base);
  await browser.post("/forgot-password", { email: person.email });
  const link = await confirmationLink(person.email);
  await endMailTurns(person.email);
  // The tests' identity backend allows one email per second to an account.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  await askForCode(browser);
  await browser.post("/login/code", { intent: "resend" });
  expect(await mailsTo(person.email)).toHaveLength(1);
  const answer = await browser.post("/auth/confirm", Object.fromEntries(new URL(link).searchParams));
  expect(answer.location).toBe("/reset-password");
});

test("once a sign-in code is used, a new one can be requested immediately", async () => {
  const [browser, other] = [openBrowser(base), openBrowser(base)];
  await askForCode(browser);
  expect((await enter(browser, await codeOf(person.email))).location).toBe("/");
  await endMailTurns(person.email);
  await askForCode(other);
  expect((await enter(other, await codeOf(person.email, { mails: 2 }))).location).toBe("/");
});

test("an unconfirmed account gets its confirmation email instead of a code, and no code signs in to it", async () => {
  await query("update auth.users set email_confirmed_at = null, raw_user_meta_data = '{}' where id = $1", [person.id]);
  const browser = openBrowser(base);
  await askForCode(browser);
  const link = await confirmationLink(person.email);
  expect((await mailsTo(person.email)).map(({ subject }) => subject)).toEqual(["Confirm your email for Gatehouse"]);
  const answer = await browser.post("/auth/confirm", Object.fromEntries(new URL(link).searchParams));
  // An attacker may have signed up with this email and chosen the account's password.
  expect(answer.location).toMatch(/^\/reset-password\?first=/);
});

test("requesting a code for an unknown email creates no account and sends no email", async () => {
  const email = `unknown-${person.email}`;
  const browser = openBrowser(base);
  await askForCode(browser, email);
  expect((await browser.get("/login/code")).words).toMatch(/If \S+ has an account/);
  expect((await enter(browser, "1234567890")).words).toContain(wrong);
  expect(await mailsTo(email)).toEqual([]);
  expect(await query("select from auth.users where email = $1", [email])).toEqual([]);
});

test("signing in with an emailed code leads to the second step if the account has an authenticator", async () => {
  await insertAuthenticators(person, ["Phone"]);
  const browser = openBrowser(base);
  await askForCode(browser);
  const answer = await enter(browser, await codeOf(person.email), { returnUrl: "/workspaces" });
  expect(answer.location).toBe("/mfa?returnUrl=%2Fworkspaces");
  expect(await sessionOf(browser)).toMatchObject({ mfa: { satisfied: false } });
});

test("an emailed code adds an account to the browser's other accounts", async () => {
  const other = await createAccount();
  try {
    const browser = await signIn(other);
    expect((await browser.get("/login/code")).location).toBe("/");
    expect((await browser.post("/add-account/code", { email: person.email })).location).toBe("/add-account/code");
    const answer = await browser.post("/add-account/code", { code: await codeOf(person.email) });
    expect(answer).toMatchObject({ status: 302, location: "/" });
    const { accounts } = JSON.parse((await browser.get("/api/v1/auth/accounts")).text);
    expect(accounts.map(({ email }: { email: string }) => email).sort()).toEqual([person.email, other.email].sort());
  } finally {
    await deletePerson(other);
  }
});

describe("step-up by emailed code", () => {
  test("step-up accepts an emailed code from people without a password", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: 900 });
    await query("update auth.users set encrypted_password = '' where id = $1", [person.id]);
    const page = await browser.get("/step-up?returnUrl=%2Fsettings%2Fsecurity%2Faccess");
    expect(page.text).toContain("/step-up/code?returnUrl=%2Fsettings%2Fsecurity%2Faccess");
    const at = "/step-up/code?returnUrl=%2Fsettings%2Fsecurity%2Faccess";
    expect((await browser.get(at)).words).toContain("Email me a code");
    expect((await browser.post(at, {})).location).toBe(at);
    expect((await browser.get(at)).words).toContain("Enter the code we sent to");
    expect((await browser.post(at, { code: "0000000000" })).words).toContain(wrong);
    const answer = await browser.post(at, { code: await codeOf(person.email) });
    expect(answer.location).toBe("/settings/security/access");
    expect((await browser.get("/settings/security/access")).status).toBe(200);
    expect(await sessionsOf(person)).toHaveLength(1);
  });

  test("step-up refuses an emailed code if the account has an authenticator", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: 900 });
    await insertAuthenticators(person, ["Phone"]);
    expect((await browser.get("/step-up/code")).location).toMatch(/^\/mfa/);
    expect((await browser.post("/step-up/code", {})).location).toMatch(/^\/mfa/);
    expect(await mailsTo(person.email)).toEqual([]);
  });

  test("step-up refuses a code that was requested for another email", async () => {
    const other = await createAccount();
    try {
      const browser = await signedInLongAgo(person, { secondsAgo: 900 });
      await browser.post("/login/code", { email: other.email });
      expect((await browser.post("/step-up/code", { code: await codeOf(other.email) })).location).toBe("/step-up/code");
    } finally {
      await deletePerson(other);
    }
  });
});

test("a phone signs in with an emailed code, and the activity log names the method", async () => {
  const { auth } = createClient(supabase.url, supabase.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const { email } = person;
  expect((await auth.signInWithOtp({ email, options: { shouldCreateUser: false } })).error).toBeNull();
  const { data, error } = await auth.verifyOtp({ email, token: await codeOf(email), type: "email" });
  expect(error).toBeNull();
  expect(data.user?.id).toBe(person.id);
  expect(await query("select method from public.security_events where user_id = $1", [person.id])).toEqual([
    { method: "otp" },
  ]);
  const browser = await signIn(person);
  expect((await browser.get("/settings/security/activity")).words).toContain("Code or link by email");
});
