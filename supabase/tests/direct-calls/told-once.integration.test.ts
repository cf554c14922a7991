import { Authenticator } from "@gatehousehq/local-stack/contract/support/authenticator";
import { afterEach, expect, test } from "vitest";
import { mailsTo } from "../../../e2e/mailbox.ts";
import { eventKind } from "../../../remix-app/activity/event-kinds.ts";
import { openBrowser } from "../../../remix-app/testing/browser.ts";
import { cookieOf } from "../../../scripts/test/keep-session.ts";
import { afterStackServer, lockOutbox } from "../../../scripts/test/mail-env.ts";
import {
  createPerson,
  deletePerson,
  type Person,
  query,
  signIn as signInOnPage,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { sweep } from "./outbox.ts";
import { beginOAuth, done, exchange, landed, newAddress, newChallenge, signedIn, signIn, visit } from "./phone.ts";

const { base } = readStack();
const passkeys = "/settings/security/passkeys";
const settleMs = 300;
let people: Pick<Person, "id">[] = [];
lockOutbox();
afterEach(async () => {
  await Promise.all(people.map(deletePerson));
  people = [];
});

const subjectOf = (kind: string) =>
  eventKind(kind)?.notice?.subject.replaceAll("{product}", "Gatehouse") ?? "New sign-in from node";
const settle = () => new Promise((resolve) => setTimeout(resolve, settleMs));

/** Returns an account's activity and the subjects of its emails, after all due emails were sent. */
async function told({ id, email }: Pick<Person, "id" | "email">) {
  await afterStackServer();
  await sweep(email);
  await expect
    .poll(() => query("select id from private.outgoing_mails where recipient = $1", [email]), { timeout: 10_000 })
    .toEqual([]);
  await sweep(email);
  await settle();
  const events = await query<{ kind: string; device: string | null }>(
    "select kind, device from public.security_events where user_id = $1 order by created_at",
    [id],
  );
  return { events, subjects: (await mailsTo(email)).map(({ subject }) => subject) };
}

test("each provider sign-in on a phone is recorded once, and emailed once if the app is new to the account", async () => {
  const email = newAddress();
  const { challenge, verifier } = newChallenge();
  const first = await done(exchange(await visit(await beginOAuth(challenge), { email }), verifier));
  const person = { id: first.body.user.id, email };
  people.push(person);
  await done(landed(await visit(await beginOAuth(), { email })));
  const { events, subjects } = await told(person);
  expect(events.map(({ kind }) => kind)).toEqual(["sign_in", "sign_in"]);
  expect(subjects).toEqual([subjectOf("sign_in")]);
});

test("when the backend links an identity by verified email, one identity_linked event is recorded and one email is sent", async () => {
  const { person } = await signedIn();
  people.push(person);
  const { challenge, verifier } = newChallenge();
  await done(exchange(await visit(await beginOAuth(challenge), { email: person.email }), verifier));
  const { events, subjects } = await told(person);
  expect(events.map(({ kind }) => kind)).toEqual(["sign_in", "identity_linked", "sign_in"]);
  expect(subjects).toEqual([subjectOf("identity_linked")]);
});

test("adding a passkey on our page records one event, with the device, and sends one email", async () => {
  const person = await createPerson();
  people.push(person);
  const browser = openBrowser(base, { cookie: await cookieOf(person) });
  const { challengeId, options } = JSON.parse((await browser.postJson(`${passkeys}/options`, {})).text);
  const credential = new Authenticator().create(options, { origin: base, rpId: new URL(base).hostname });
  expect((await browser.postJson(passkeys, { challengeId, credential })).status).toBe(200);
  const { events, subjects } = await told(person);
  expect(events.filter(({ kind }) => kind !== "sign_in")).toEqual([
    { kind: "passkey_added", device: expect.any(String) },
  ]);
  expect(subjects).toEqual([subjectOf("passkey_added")]);
});

test("signing out all other devices is recorded and emailed once, although it is requested three times", async () => {
  const person = await createPerson();
  people.push(person);
  const browser = await signInOnPage(person);
  await done(signIn(person));
  const send = () => browser.post("/settings/security/sessions", { session: "others" });
  await Promise.all([send(), send()]);
  await send();
  const { events, subjects } = await told(person);
  expect(events.filter(({ kind }) => kind === "other_sessions_revoked")).toHaveLength(1);
  expect(subjects.filter((subject) => subject === subjectOf("other_sessions_revoked"))).toHaveLength(1);
});
