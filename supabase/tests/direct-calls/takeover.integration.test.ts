import { Authenticator } from "@gatehousehq/local-stack/contract/support/authenticator";
import { afterEach, beforeEach, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../../e2e/mailbox.ts";
import { eventKind } from "../../../remix-app/activity/event-kinds.ts";
import { openBrowser } from "../../../remix-app/testing/browser.ts";
import { formOf } from "../../../remix-app/testing/form.ts";
import { lockOutbox } from "../../../scripts/test/mail-env.ts";
import {
  createPerson,
  deletePerson,
  type Person,
  query,
  signIn as signInOnPage,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { sweep } from "./outbox.ts";
import {
  answerPasskey,
  beginLink,
  beginOAuth,
  beginPasskey,
  call,
  done,
  enroll,
  exchange,
  landed,
  newAddress,
  newChallenge,
  prove,
  type Session,
  sessionIn,
  signIn,
  visit,
} from "./phone.ts";

const { base } = readStack();
const accessPath = "/settings/security/access";
const newPassword = `quite another ${crypto.randomUUID()}`;
let owner: Person;
let attackerEmail: string;
lockOutbox();
beforeEach(async () => {
  owner = await createPerson();
  await query("update auth.users set email_confirmed_at = now() - interval '1 day' where id = $1", [owner.id]);
  await signInOnPage(owner);
  attackerEmail = newAddress();
});
afterEach(async () => {
  await query("delete from auth.users where email = $1", [attackerEmail]);
  await deletePerson(owner);
});

/** Links the attacker's provider account to the owner's account, using only the password. */
async function linkDirectly(): Promise<Session> {
  const session = sessionIn(await done(signIn(owner)));
  const { challenge, verifier } = newChallenge();
  const address = await beginLink(session.accessToken, challenge);
  await done(exchange(await visit(address, { email: attackerEmail }), verifier));
  return session;
}

/** Signs in with the attacker's provider account. @returns the id of the account that is now signed in */
async function opensAccount(): Promise<string> {
  const { challenge, verifier } = newChallenge();
  const back = landed(await visit(await beginOAuth(challenge), { email: attackerEmail }));
  return (await done(exchange(back.location, verifier))).body.user.id;
}

/** Sends all due emails to the owner, then returns the subjects of the emails that the owner received. */
async function subjects(): Promise<(string | undefined)[]> {
  await sweep(owner.email);
  return (await mailsTo(owner.email)).map(({ subject }) => subject);
}

const subjectOf = (kind: string) => eventKind(kind)?.notice?.subject.replaceAll("{product}", "Gatehouse");

/** Opens the link in the password reset email. @returns the owner's browser in which the reset was requested */
async function openResetMail() {
  const browser = openBrowser(base);
  const after = (await mailsTo(owner.email)).length;
  await browser.post("/forgot-password", { email: owner.email });
  const link = new URL(await confirmationLink(owner.email, { after }));
  const { location } = await browser.post("/auth/confirm", Object.fromEntries(link.searchParams));
  return { browser, location };
}

test("an owner who resets the password and submits the account access form locks out an attacker who linked an identity by a direct call", async () => {
  const attacker = await linkDirectly();
  expect(await opensAccount()).toBe(owner.id);
  await expect.poll(subjects).toContain(subjectOf("identity_linked"));

  const { browser, location } = await openResetMail();
  expect(location).toBe("/reset-password");
  const changed = await browser.post("/reset-password", { password: newPassword });
  const { fields, boxes } = formOf(changed.text, accessPath);
  const identities = Object.entries(boxes).filter(([key]) => key.startsWith("identity:"));
  expect(identities.map(([, { checked }]) => checked)).toEqual([true]);
  expect((await browser.post(accessPath, fields)).status).toBe(303);

  expect((await signIn(owner)).status).toBe(400);
  const refresh = { body: { refresh_token: attacker.refreshToken } };
  expect((await call("POST /token?grant_type=refresh_token", refresh)).status).toBe(400);
  expect((await call("GET /user", { bearer: attacker.accessToken })).status).toBe(403);
  expect(await opensAccount()).not.toBe(owner.id);
  expect((await signIn({ ...owner, password: newPassword })).status).toBe(200);
  await expect
    .poll(subjects)
    .toEqual(expect.arrayContaining([subjectOf("password_changed"), subjectOf("identity_unlinked")]));
  const received = await subjects();
  for (const kind of ["identity_linked", "password_changed", "identity_unlinked"]) {
    expect(received.filter((subject) => subject === subjectOf(kind))).toHaveLength(1);
  }
});

test("after a password reset, an owner must still review an identity even if an attacker with the old password has confirmed it", async () => {
  await linkDirectly();
  const theirs = await signInOnPage(owner);
  const { fields, boxes } = formOf((await theirs.get(accessPath)).text, accessPath);
  const selected = new Set(Object.values(boxes).map(({ name }) => name));
  const kept = Object.fromEntries(Object.entries(fields).filter(([name]) => !selected.has(name)));
  expect((await theirs.post(accessPath, kept)).status).toBe(303);
  expect(await query("select from private.unconfirmed_additions where user_id = $1", [owner.id])).toEqual([]);
  await expect.poll(subjects).toContain(subjectOf("access_confirmed"));

  const { browser } = await openResetMail();
  const changed = await browser.post("/reset-password", { password: newPassword });
  const form = formOf(changed.text, accessPath);
  expect(
    Object.entries(form.boxes)
      .filter(([, { checked }]) => checked)
      .map(([key]) => key.split(":")[0]),
  ).toEqual(["identity"]);
  expect((await browser.post(accessPath, form.fields)).status).toBe(303);
  expect(await opensAccount()).not.toBe(owner.id);
});

test("an owner regains access and locks out an attacker who enrolled a passkey and an authenticator", async () => {
  const { accessToken: bearer } = await linkDirectly();
  const passkey = new Authenticator();
  await done(call("POST /passkeys/registration/verify", { bearer, body: await beginPasskey(bearer, passkey) }));
  const factor = await enroll(bearer);
  const raised = sessionIn(await done(prove(bearer, factor)));
  await expect
    .poll(subjects)
    .toEqual(
      expect.arrayContaining(
        ["identity_linked", "passkey_added", "authenticator_added"].map((kind) => subjectOf(kind)),
      ),
    );

  const { browser, location } = await openResetMail();
  const review = `${accessPath}?${new URLSearchParams({ returnUrl: "/reset-password" })}`;
  expect((await browser.get(location ?? "")).text).toContain(`href="${review}"`);
  const { fields } = formOf((await browser.get(review)).text, accessPath);
  const confirmed = await browser.post(accessPath, fields);
  expect(confirmed).toMatchObject({ status: 303, location: "/reset-password" });
  expect((await browser.post("/reset-password", { password: newPassword })).status).toBe(200);

  expect((await signIn(owner)).status).toBe(400);
  expect((await call("GET /user", { bearer: raised.accessToken })).status).toBe(403);
  const body = await answerPasskey(passkey);
  expect((await call("POST /passkeys/authentication/verify", { body })).status).toBeGreaterThanOrEqual(400);
  expect(await opensAccount()).not.toBe(owner.id);
  expect(await query("select id from auth.mfa_factors where user_id = $1", [owner.id])).toEqual([]);
  const session = sessionIn(await done(signIn({ ...owner, password: newPassword })));
  expect((await call("GET /user", { bearer: session.accessToken })).body.id).toBe(owner.id);
});
