import { createPerson } from "../../../scripts/test/people.ts";
import type { DirectCall } from "./journey.ts";
import {
  beginOAuth,
  call,
  done,
  exchange,
  mailedToken,
  newAddress,
  newChallenge,
  raised,
  sessionIn,
  signedIn,
  signIn,
  visit,
} from "./phone.ts";

const newPassword = "another horse battery";

const putUser = (bearer: string, body: object) => () => call("PUT /user", { bearer, body });

/** Prepares an account whose owner has requested an email change and has emails in both mailboxes. */
async function changingAddress() {
  const { person, session } = await signedIn();
  await done(call("PUT /user", { bearer: session.accessToken, body: { email: newAddress() } }));
  const half = async (mailbox: "current" | "new") => ({
    body: { type: "email_change", token_hash: await mailedToken(person.id, `email_change_token_${mailbox}`) },
  });
  return { person, half };
}

/** Signs up a person with a provider instead of a password. Returns the person and the session. */
async function withoutPassword() {
  const email = newAddress();
  const { challenge, verifier } = newChallenge();
  const answer = await done(exchange(await visit(await beginOAuth(challenge), { email }), verifier));
  return { person: { id: answer.body.user.id as string, email }, session: sessionIn(answer) };
}

/** Calls that change an account's sign-in methods, password or email. */
export const accountCalls: DirectCall[] = [
  {
    route: "PUT /user",
    title: "a new password",
    events: ["password_changed"],
    mails: { password_changed: 1 },
    async prepare() {
      const { person, session } = await signedIn();
      await done(signIn(person));
      return { person, act: putUser(session.accessToken, { password: newPassword }) };
    },
  },
  {
    route: "PUT /user",
    title: "a new password after a recovery link",
    events: ["password_changed"],
    mails: { password_changed: 1 },
    async prepare() {
      const person = await createPerson();
      await done(call("POST /recover", { body: { email: person.email } }));
      const body = { type: "recovery", token_hash: await mailedToken(person.id, "recovery_token") };
      const session = sessionIn(await done(call("POST /verify", { body })));
      return { person, act: putUser(session.accessToken, { password: newPassword }) };
    },
  },
  {
    route: "PUT /user",
    title: "a first password",
    events: ["password_added"],
    mails: { password_added: 1 },
    async prepare() {
      const { person, session } = await withoutPassword();
      return { person, act: putUser(session.accessToken, { password: newPassword }) };
    },
  },
  {
    route: "PUT /user",
    title: "the same password",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: putUser(session.accessToken, { password: person.password }) };
    },
  },
  {
    route: "PUT /user",
    title: "a new password from a session without the second factor",
    refused: true,
    async prepare() {
      const { person } = await raised();
      const session = sessionIn(await done(signIn(person)));
      return { person, act: putUser(session.accessToken, { password: newPassword }) };
    },
  },
  {
    route: "PUT /user",
    title: "metadata",
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: putUser(session.accessToken, { data: { full_name: "Ada" } }) };
    },
  },
  {
    route: "PUT /user",
    title: "application metadata",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: putUser(session.accessToken, { app_metadata: { platform_required_mfa: null } }) };
    },
  },
  {
    route: "PUT /user",
    title: "a phone number",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: putUser(session.accessToken, { phone: "15555550100" }) };
    },
  },
  {
    route: "PUT /user",
    title: "another address",
    events: ["email_change_requested"],
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: putUser(session.accessToken, { email: newAddress() }) };
    },
  },
  {
    route: "POST /verify",
    title: "the first of two confirmations of another address",
    async prepare() {
      const { person, half } = await changingAddress();
      const request = await half("current");
      return { person, act: () => call("POST /verify", request) };
    },
  },
  {
    route: "POST /verify",
    title: "the second of two confirmations of another address",
    events: ["email_changed", "sign_in"],
    mails: { email_changed: 2 },
    async prepare() {
      const { person, half } = await changingAddress();
      await done(call("POST /verify", await half("new")));
      const request = await half("current");
      return { person, act: () => call("POST /verify", request) };
    },
  },
  {
    route: "POST /verify",
    title: "the second confirmation where the account had signed up with a provider",
    events: ["email_changed", "sign_in"],
    mails: { email_changed: 2 },
    async prepare() {
      const { person, session } = await withoutPassword();
      await done(call("PUT /user", { bearer: session.accessToken, body: { email: newAddress() } }));
      const token = (mailbox: string) => mailedToken(person.id, `email_change_token_${mailbox}`);
      await done(call("POST /verify", { body: { type: "email_change", token_hash: await token("current") } }));
      const body = { type: "email_change", token_hash: await token("new") };
      return { person, act: () => call("POST /verify", { body }) };
    },
  },
];
