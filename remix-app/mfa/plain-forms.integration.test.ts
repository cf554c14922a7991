import { afterAll, beforeEach, expect, test } from "vitest";
import { confirmationLink } from "../../e2e/mailbox.ts";
import {
  createPerson,
  deletePerson,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { type AuthenticatorApp, codeOf, wrongCodesOf } from "../testing/authenticator-app.ts";
import { openPhone, unlockedPhone } from "../testing/phone.ts";
import { openPlainTab, type PlainTab } from "../testing/plain-tab.ts";

/** The second step in a browser without JavaScript. The browser tests make the same journeys with JavaScript. */
const { base, supabase } = readStack();
const people: Person[] = [];
let member: Person;
let tab: PlainTab;

beforeEach(async () => {
  member = await createPerson();
  people.push(member);
  // A link used in the same second as the confirmation counts as the confirmation link.
  await query("update auth.users set email_confirmed_at = now() - interval '1 hour' where id = $1", [member.id]);
  tab = openPlainTab(base);
});
afterAll(async () => {
  for (const person of people) await deletePerson(person);
});

async function signIn(at = "/login", password = member.password): Promise<void> {
  await tab.open(at);
  tab.fill("Email", member.email);
  tab.fill("Password", password);
  await tab.press("Sign in");
}

async function enroll(...names: [string, ...string[]]): Promise<[AuthenticatorApp, ...AuthenticatorApp[]]> {
  return (await insertAuthenticators(member, names)) as [AuthenticatorApp, ...AuthenticatorApp[]];
}

async function enterCode(code: string, button = "Verify"): Promise<void> {
  tab.fill("6-digit code", code);
  await tab.press(button);
}

/** Enrolls an authenticator app with the key on the page. @returns the app's secret */
async function enrollOnPage(name = ""): Promise<{ secret: string; used: string }> {
  if (name) tab.fill("Name (optional)", name);
  await tab.press("Set up app");
  const [key = ""] = /(?:\b[A-Z2-7]{4} ?){8}/.exec(tab.words()) ?? [];
  const secret = key.replaceAll(" ", "");
  const used = codeOf({ secret });
  await enterCode(used, "Verify and add");
  return { secret, used };
}

const recoveryCodes = () => tab.texts("[aria-label='Recovery codes'] li");

test("without JavaScript, a person adds an authenticator app, and the next sign-in requires its code", async () => {
  await signIn("/login?returnUrl=%2Fsettings%2Fsecurity");
  await tab.follow("Add app");
  const app = await enrollOnPage("Work phone");
  expect(tab.heading()).toBe("Save your recovery codes");
  expect(recoveryCodes()).toHaveLength(10);
  await tab.follow("I’ve saved them");
  expect(tab.words()).toContain("Work phone");
  expect(tab.words()).toContain("10 codes left");

  tab = openPlainTab(base);
  await signIn("/workspaces?sort=name");
  expect(tab.heading()).toBe("Enter your code");
  const [wrong = ""] = wrongCodesOf(app);
  await enterCode(wrong);
  expect(tab.alert()).toContain("That code is incorrect");
  expect(tab.errorOf("6-digit code")).toContain("That code is incorrect");
  expect(tab.valueOf("6-digit code")).toBe("");
  await enterCode(app.used);
  expect(tab.alert()).toContain("That code was already used");
  await enterCode(codeOf(app, 1).replace(/^.../, "$& "));
  expect(tab.path()).toBe("/workspaces?sort=name");
});

test("a person who cannot pass the second step finds help, is asked for it on every page, and can sign out", async () => {
  await enroll("Phone");
  await signIn();
  expect(tab.words()).toContain("Can’t use any of these? Ask your administrator");
  const { status, text } = await tab.browser.get("/api/v1/users/me/sessions");
  expect([status, JSON.parse(text).code]).toEqual([403, "MFA_REQUIRED"]);
  await tab.open("/workspaces");
  expect(tab.path()).toBe("/mfa?returnUrl=%2Fworkspaces");
  await tab.press("Sign out");
  expect(tab.path()).toBe("/login");
  await tab.open("/mfa");
  expect(tab.path()).toBe("/login");
});

test("without JavaScript, a recovery code replaces a lost authenticator app, and the person adds a new one", async () => {
  const [app] = await enroll("Lost phone");
  await signIn();
  await enterCode(codeOf(app));
  await tab.open("/mfa/recovery-codes");
  await tab.press("Create 10 codes");
  const [code = ""] = recoveryCodes();

  tab = openPlainTab(base);
  await signIn("/login?returnUrl=%2Fworkspaces");
  await tab.follow(/^Use a recovery code/);
  tab.fill("Recovery code", "7KQ2-M9XA-04TC-HW5E");
  await tab.press("Remove authenticator apps");
  expect(tab.alert()).toContain("That code is incorrect or was already used");
  expect(tab.errorOf("Recovery code")).toContain("That code is incorrect or was already used");
  tab.fill("Recovery code", code.toLowerCase());
  await tab.press("Remove authenticator apps");
  expect(tab.words()).toContain("Your authenticator apps were removed");
  await enrollOnPage("New phone");
  // Nine recovery codes are left, so no new ones are created.
  expect(tab.path()).toBe("/workspaces");
  await tab.open("/settings/security");
  expect(tab.words()).toContain("9 codes left");
});

test("without JavaScript, an account that requires MFA must add an authenticator app before anything else", async () => {
  await requireMfa(member);
  await signIn("/login?returnUrl=%2Fworkspaces");
  expect(tab.words()).toContain("An administrator requires a second factor");
  await tab.open("/settings/security");
  expect(tab.heading()).toBe("Add an authenticator app");
  await tab.open("/workspaces");
  await enrollOnPage();
  await tab.follow("I’ve saved them");
  expect([tab.path(), tab.heading()]).toEqual(["/workspaces", "Workspaces"]);
});

test("without JavaScript, a person with an authenticator app replaces a forgotten password after entering a code", async () => {
  const [app] = await enroll("Phone");
  await tab.open("/forgot-password");
  tab.fill("Email", member.email);
  await tab.press("Send reset link");
  await tab.open(await confirmationLink(member.email));
  await tab.press("Continue");
  expect(tab.heading()).toBe("Enter your code");
  await enterCode(codeOf(app));
  tab.fill("New password", "quite another password");
  await tab.press("Change password");
  expect(tab.heading()).toBe("Password changed");
  tab = openPlainTab(base);
  await signIn("/login", "quite another password");
  expect(tab.heading()).toBe("Enter your code");
});

test("without JavaScript, a security change asks for a code again if the last code is more than ten minutes old", async () => {
  const [app] = await enroll("Phone", "Tablet");
  tab = openPlainTab(
    base,
    await signedInLongAgo(member, { secondsAgo: 610, prove: { factorId: app.factorId, code: codeOf(app) } }),
  );
  await tab.open("/settings/security");
  await tab.follow("Remove Tablet");
  expect(tab.heading()).toBe("Confirm it’s you");
  tab.check("Phone");
  await enterCode(codeOf(app, 1), "Confirm");
  expect(tab.heading()).toBe("Remove authenticator app “Tablet”?");
  await tab.press("Remove app");
  expect(tab.path()).toBe("/settings/security");
  expect(tab.texts("a, button").filter((name) => /^Remove (Tablet|Phone)$/.test(name))).toEqual(["Remove Phone"]);
});

test("without JavaScript, a security change asks for the password again if the account has no authenticator app", async () => {
  tab = openPlainTab(base, await signedInLongAgo(member, { secondsAgo: 610 }));
  await tab.open("/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity");
  tab.fill("Password", "not the password");
  await tab.press("Confirm");
  expect(tab.alert()).toContain("That password is incorrect");
  expect(tab.errorOf("Password")).toContain("That password is incorrect");
  tab.fill("Password", member.password);
  await tab.press("Confirm");
  expect(tab.path()).toBe("/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity");
  expect(tab.heading()).toBe("Add an authenticator app");
});

test("without JavaScript, approving a browser's QR code on a phone gives the browser a new session", async () => {
  const phone = await openPhone({ base, ...supabase }, member);
  await signIn("/login?returnUrl=%2Fqr%3FreturnUrl%3D%252Fworkspaces");
  const answer = async (decision: "approve" | "reject") => {
    const [, id, secret] = /challenges\/([^?"]+)\?secret=([^"&]+)/.exec(await pageText()) ?? [];
    const body = { secret, ...(decision === "approve" ? { device: unlockedPhone } : {}) };
    const { status } = await phone.post(`/api/v1/auth/qr-login/challenges/${id}/${decision}`, body);
    expect(status).toBe(200);
  };
  const pageText = async () => (await tab.browser.get(tab.path())).text;
  const sessionId = async () => JSON.parse((await tab.browser.get("/api/v1/auth/session")).text).sessionId;
  await tab.press("Show QR code");
  await answer("reject");
  await tab.open(tab.path());
  expect(tab.words()).toContain("The request was rejected");
  await tab.press("Show a new code");
  const before = await sessionId();
  await answer("approve");
  await tab.open(tab.path());
  await tab.open(tab.path());
  expect(await sessionId()).toBe(before);
  expect(tab.words()).toContain("Approved on your phone");
  await tab.press("Continue");
  expect(tab.path()).toBe("/workspaces");
  expect(await sessionId()).not.toBe(before);
});

test("without JavaScript, approval on a phone at AAL2 completes the browser's second step", async () => {
  const [app] = await enroll("Authenticator");
  const proof = { factorId: app.factorId, code: codeOf(app) };
  const phone = await openPhone({ base, ...supabase }, { ...member, prove: proof });
  await signIn("/login?returnUrl=%2Fworkspaces");
  await tab.follow(/^Approve on your phone/);
  await tab.press("Send request to my phone");
  const { body } = await phone.get<{ approvals: { id: string }[] }>("/api/v1/auth/mfa/mobile/approvals");
  const [pairCode = ""] = /\b\d{3} \d{3}\b/.exec(tab.words()) ?? [];
  const approval = { decision: "approve", pairCode: pairCode.replace(" ", ""), device: unlockedPhone };
  const path = `/api/v1/auth/mfa/mobile/challenges/${body.approvals[0]?.id}/approve`;
  expect((await phone.post(path, approval)).status).toBe(200);
  await tab.open(tab.path());
  await tab.press("Continue");
  expect(tab.path()).toBe("/workspaces");
});
