import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { createApp, handOver } from "../../scripts/test/apps.ts";
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
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { createIdentity } from "../../supabase/tests/sign-in/oauth-fixtures.ts";
import { codeOf, enrollApps } from "../testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { formOf } from "../testing/form.ts";
import { freshSignInMs } from "./user.ts";

const { base, supabase } = readStack();
const path = "/settings/security/access";
const security = "/settings/security";
const everywhere = "/api/v1/auth/accounts/logout-everywhere";
let person: Person;

beforeEach(async () => {
  person = await createPerson();
  const yesterday = "created_at = now() - interval '1 day', email_confirmed_at = now() - interval '1 day'";
  await query(`update auth.users set ${yesterday} where id = $1`, [person.id]);
});
afterEach(() => deletePerson(person));

/** Signs in with only the publishable key, as anyone who knows the password can. */
async function signInDirectly({ email, password }: Pick<Person, "email" | "password"> = person) {
  const client = createClient(supabase.url, supabase.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const { data, error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  return { client, token: data.session.access_token };
}

/** Links a Google account to the person without using our pages. Anyone who knows the password can do this. */
async function linkDirectly(): Promise<string> {
  await signInDirectly();
  const { db, close } = openPool(1);
  try {
    return await createIdentity(db, { userId: person.id, email: `${crypto.randomUUID()}@gmail.example` });
  } finally {
    await close();
  }
}

async function addPasskey(name = "Laptop"): Promise<string> {
  const [row] = await query<{ id: string }>(
    `insert into auth.webauthn_credentials (user_id, credential_id, public_key, friendly_name)
     values ($1, decode(md5(random()::text), 'hex'), '', $2) returning id`,
    [person.id, name],
  );
  return row?.id ?? "";
}

const list = async (browser: Browser, at = path) => {
  const page = await browser.get(at);
  return { ...page, ...formOf(page.text, path) };
};
const checkedIn = ({ boxes }: ReturnType<typeof formOf>) =>
  Object.entries(boxes)
    .filter(([, { checked }]) => checked)
    .map(([key]) => key)
    .sort();
const ownSession = async (browser: SignedInBrowser) => (await browser.session()).sessionId;
const kindsOf = async () =>
  (
    await query<{ kind: string }>(
      "select kind from public.security_events where user_id = $1 and kind <> 'sign_in' order by created_at, kind",
      [person.id],
    )
  ).map(({ kind }) => kind);
const subjects = async () => (await mailsTo(person.email)).map(({ subject }) => subject);

async function openResetMail() {
  const browser = openBrowser(base);
  const known = (await mailsTo(person.email)).length;
  await browser.post("/forgot-password", { email: person.email });
  const link = new URL(await confirmationLink(person.email, { after: known }));
  const { location } = await browser.post("/auth/confirm", Object.fromEntries(link.searchParams));
  return { browser, location };
}

describe("the account's access list", () => {
  test("the access list preselects recently added sign-in methods and other sessions, but not the current session", async () => {
    const browser = await enter(person);
    const identity = await linkDirectly();
    const passkey = await addPasskey();
    const page = await list(browser);
    expect(page.status).toBe(200);
    const here = `session:${await ownSession(browser)}`;
    expect(Object.keys(page.boxes)).not.toContain(here);
    const sessions = Object.keys(page.boxes).filter((key) => key.startsWith("session:"));
    expect(sessions).toHaveLength(1);
    expect(checkedIn(page)).toEqual([`identity:${identity}`, `passkey:${passkey}`, ...sessions].sort());
    for (const words of ["Google: ", "Passkey: Laptop", "Password Set", "This device"])
      expect(page.words).toContain(words);
  });

  test("submitting the access list removes the selected items, confirms the rest, and notifies the owner", async () => {
    const browser = await enter(person);
    const identity = await linkDirectly();
    const passkey = await addPasskey();
    const { fields, boxes } = await list(browser);
    const { [boxes[`passkey:${passkey}`]?.name ?? ""]: _, ...kept } = fields;
    expect(await browser.post(path, kept)).toMatchObject({ status: 303, location: `${security}#access` });
    expect((await browser.get(security)).words).toContain("The selected items were removed. Everything else was kept.");
    expect(await query("select from auth.identities where id = $1", [identity])).toEqual([]);
    const after = await list(browser);
    expect(Object.keys(after.boxes).sort()).toEqual([`passkey:${passkey}`, "password"].sort());
    expect(checkedIn(after)).toEqual([]);
    expect(after.words).not.toContain("Unconfirmed");
    expect((await kindsOf()).filter((kind) => /unlinked|revoked/.test(kind))).toEqual([
      "identity_unlinked",
      "session_revoked",
    ]);
    await expect
      .poll(subjects)
      .toEqual(
        expect.arrayContaining([
          "An account was unlinked from your Gatehouse account",
          "A device was signed out of your Gatehouse account",
        ]),
      );
    const [event] = await query<{ device: string; ip: string }>(
      "select device, host(ip) as ip from public.security_events where user_id = $1 and kind = 'identity_unlinked'",
      [person.id],
    );
    expect(event).toMatchObject({ device: "Unknown browser", ip: expect.any(String) });
  });

  test("submitting the access list with nothing selected confirms everything", async () => {
    const browser = await enter(person);
    const passkey = await addPasskey();
    expect((await browser.get(security)).words).toMatch(/Laptop Unconfirmed/);
    const { fields, boxes } = await list(browser);
    const { [boxes[`passkey:${passkey}`]?.name ?? ""]: _, ...kept } = fields;
    await browser.post(path, kept);
    const { words } = await browser.get(security);
    expect(words).toContain("You reviewed account access and kept everything.");
    expect(words).not.toContain("Unconfirmed");
  });

  test("the access list redirects to its returnUrl, but never to another site", async () => {
    const browser = await enter(person);
    const { fields } = await list(browser, `${path}?returnUrl=%2Fworkspaces`);
    expect((await browser.post(path, fields)).location).toBe("/workspaces");
    const elsewhere = { ...fields, returnUrl: "https://evil.example/" };
    expect((await browser.post(path, elsewhere)).location).toBe("/");
  });

  test("removing the last way to sign in is refused with 409, with the error at the item and at the top of the access list", async () => {
    const browser = await enter(person);
    const { fields, boxes } = await list(browser);
    expect(checkedIn({ fields, boxes })).toEqual([]);
    const refused = await browser.post(path, { ...fields, [boxes.password?.name ?? ""]: "password" });
    expect(refused.status).toBe(409);
    const message = "Keep at least one way to sign in: a password, a passkey or a linked account.";
    expect(refused.words.split(message)).toHaveLength(3);
    expect(refused.text).toMatch(/<a class="[^"]*" href="#remove-0">/);
    expect(refused.text).toMatch(/aria-invalid="true"/);
    expect(checkedIn(formOf(refused.text, path))).toEqual(["password"]);
    expect((await signInDirectly()).token).toBeTruthy();
  });

  test("an account that requires MFA can't remove its last authenticator from the access list", async () => {
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no authenticator");
    await requireMfa(person);
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const browser = await signedInLongAgo(person, { secondsAgo: 0, prove });
    const { fields, boxes } = await list(browser);
    const key = `authenticator:${app.factorId}`;
    expect(boxes[key]?.checked).toBe(false);
    const refused = await browser.post(path, { ...fields, [boxes[key]?.name ?? ""]: key });
    expect([refused.status, refused.words]).toEqual([409, expect.stringContaining("requires an authenticator app")]);
    expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toHaveLength(1);
  });

  test("the access list ignores items that belong to another account", async () => {
    const other = await createPerson();
    try {
      const theirs = await enter(other);
      const target = `session:${await ownSession(theirs)}`;
      const browser = await enter(person);
      const { fields } = await list(browser);
      expect((await browser.post(path, { ...fields, remove_99: target })).status).toBe(303);
      expect((await theirs.get(security)).status).toBe(200);
    } finally {
      await deletePerson(other);
    }
  });

  test("submitting the access list twice concurrently removes each item only once", async () => {
    const browser = await enter(person);
    await linkDirectly();
    const { fields } = await list(browser);
    const answers = await Promise.all([browser.post(path, fields), browser.post(path, fields)]);
    expect(answers.map(({ status }) => status)).toEqual([303, 303]);
    const kinds = (await kindsOf()).filter((kind) => /unlinked|revoked/.test(kind));
    expect(kinds).toEqual(["identity_unlinked", "session_revoked"]);
  });

  test.each([
    [freshSignInMs / 1_000 - 30, 200],
    [freshSignInMs / 1_000 + 1, 302],
  ])("with a sign-in %s seconds old, the access list returns %s", async (secondsAgo, status) => {
    const browser = await signedInLongAgo(person, { secondsAgo });
    const answer = await browser.get(path);
    expect(answer.status).toBe(status);
    if (status === 302) expect(answer.location).toBe(`/step-up?${new URLSearchParams({ returnUrl: path })}`);
  });

  test.each<Record<string, string>>([{ listed: "" }, { listedAt: "yesterday", listed: "" }])(
    "the access list refuses the form %j",
    async (fields) => {
      expect((await (await enter(person)).post(path, fields)).status).toBe(400);
    },
  );
});

describe("the access list after a password reset", () => {
  const password = `quite another ${crypto.randomUUID()}`;

  test("after a password reset, the access list shows and removes what an attacker added, and the attacker is locked out", async () => {
    const elsewhere = await enter(person);
    const app = await createApp({ scopes: ["profile"] });
    await handOver({ ...person, accessToken: (await signInDirectly()).token }, app);
    const identity = await linkDirectly();
    const { browser, location } = await openResetMail();
    expect(location).toBe("/reset-password");
    const page = await browser.post("/reset-password", { password });
    expect([page.status, page.words]).toEqual([200, expect.stringContaining("Password changed")]);
    // The reset has ended every other session and every app session.
    const form = formOf(page.text, path);
    expect(Object.keys(form.boxes).sort()).toEqual([`identity:${identity}`, "password"]);
    expect(checkedIn(form)).toEqual([`identity:${identity}`]);
    expect(page.words).toContain("Unconfirmed");
    expect((await elsewhere.get(security)).location).toContain("/login");
    expect(
      await query("select from private.app_sessions where user_id = $1 and revoked_at is null", [person.id]),
    ).toEqual([]);

    expect(await browser.post(path, form.fields)).toMatchObject({ status: 303, location: "/" });
    expect(await query("select from auth.identities where id = $1", [identity])).toEqual([]);
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toHaveLength(1);
    await expect(signInDirectly()).rejects.toThrow();
    expect((await browser.get(security)).status).toBe(200);
    await expect.poll(subjects).toContain("An account was unlinked from your Gatehouse account");
  });

  test("after a password reset, an authenticator that an attacker enrolled does not lock the owner out", async () => {
    const { email, password: known } = person;
    const [app] = await enrollApps(supabase, { email, password: known, names: ["Theirs"] });
    const { browser, location } = await openResetMail();
    expect(location).toBe("/mfa?returnUrl=%2Freset-password");
    const { text, words } = await browser.get(location ?? "");
    expect(words).toContain("Didn’t add this authenticator app?");
    const review = `${path}?${new URLSearchParams({ returnUrl: "/reset-password" })}`;
    expect(text).toContain(`href="${review}"`);
    const page = await list(browser, review);
    expect(checkedIn(page)).toContain(`authenticator:${app?.factorId}`);
    expect(await browser.post(path, page.fields)).toMatchObject({ status: 303, location: "/reset-password" });
    expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toEqual([]);
    expect((await browser.post("/reset-password", { password })).words).toContain("Password changed");
    expect((await signInDirectly({ email, password })).token).toBeTruthy();
  });

  test("after a password reset, the authenticator whose code was just entered isn't preselected", async () => {
    const [app, unused] = await insertAuthenticators(person, ["Phone", "Tablet"]);
    if (!app || !unused) throw new Error("no authenticators");
    const { browser, location } = await openResetMail();
    await browser.post(location ?? "", { factorId: app.factorId, code: codeOf(app) });
    const page = await list(browser);
    expect(checkedIn(page)).toContain(`authenticator:${unused.factorId}`);
    expect(checkedIn(page)).not.toContain(`authenticator:${app.factorId}`);
    expect(page.words).toContain("You just entered its code");
  });

  test("after a password reset, an authenticator that the owner confirmed is still required", async () => {
    await insertAuthenticators(person, ["Phone"]);
    const { browser, location } = await openResetMail();
    expect(location).toBe("/mfa?returnUrl=%2Freset-password");
    expect((await browser.get(location ?? "")).words).not.toContain("Didn’t add this authenticator app?");
    expect((await browser.get(path)).location).toBe(`/mfa?${new URLSearchParams({ returnUrl: path })}`);
  });
});

describe("signing out everywhere", () => {
  const call = (token: string) =>
    fetch(new URL(everywhere, base), { method: "POST", headers: { authorization: `Bearer ${token}` } });

  test("signing out everywhere ends every session, app session and app token of the account, and notifies its owner once", async () => {
    const browser = await enter(person);
    const { token } = await signInDirectly();
    const app = await createApp({ scopes: ["profile"] });
    await handOver({ ...person, accessToken: token }, app);
    const answer = await call(token);
    expect([answer.status, await answer.json()]).toEqual([200, { activeAccountId: null, redirectTo: "/login" }]);
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toEqual([]);
    expect(
      await query("select from private.app_sessions where user_id = $1 and revoked_at is null", [person.id]),
    ).toEqual([]);
    expect((await browser.get(security)).location).toContain("/login");
    expect((await call(token)).status).toBe(401);
    expect(await kindsOf()).toEqual(["all_sessions_revoked"]);
    await expect.poll(subjects).toContain("You were signed out of Gatehouse everywhere");
  });

  test("signing out everywhere from a browser clears its session", async () => {
    const browser = await enter(person);
    const { status, text } = await browser.postJson(everywhere, undefined);
    expect([status, JSON.parse(text)]).toEqual([200, { activeAccountId: null, redirectTo: "/login" }]);
    expect((await browser.get(security)).location).toContain("/login");
  });

  test.each([
    [freshSignInMs / 1_000 - 30, 200],
    [freshSignInMs / 1_000 + 1, 403],
  ])("with a sign-in %s seconds old, signing out everywhere returns %s", async (secondsAgo, status) => {
    const browser = await signedInLongAgo(person, { secondsAgo });
    expect((await browser.postJson(everywhere, undefined)).status).toBe(status);
  });

  test("signing out everywhere is refused while the second factor is pending", async () => {
    await insertAuthenticators(person, ["Phone"]);
    const answer = await call((await signInDirectly()).token);
    expect([answer.status, await answer.json()]).toEqual([403, expect.objectContaining({ code: "MFA_REQUIRED" })]);
  });
});
