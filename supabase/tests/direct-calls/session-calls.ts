import { createPerson, query } from "../../../scripts/test/people.ts";
import type { DirectCall } from "./journey.ts";
import {
  call,
  callAsAdmin,
  done,
  exchange,
  mailedToken,
  newAddress,
  newChallenge,
  phoneAgent,
  sessionIn,
  signedIn,
  signIn,
} from "./phone.ts";

const password = "correct horse battery";

/** Prepares an account that was emailed a link or a code. */
async function mailed(route: string, challenge: object = {}) {
  const person = await createPerson();
  await done(call(route, { body: { email: person.email, ...challenge } }));
  return { person, token: await mailedToken(person.id, "recovery_token") };
}

/** Prepares an account that has signed up but has not confirmed its email. */
async function signedUp() {
  const email = newAddress();
  await done(call("POST /signup", { body: { email, password } }));
  const [account] = await query<{ id: string }>("select id from auth.users where email = $1", [email]);
  const id = account?.id ?? "";
  return { person: { id, email }, token: await mailedToken(id, "confirmation_token") };
}

/** Prepares an account on two phones. */
async function onTwoPhones() {
  const { person, session } = await signedIn();
  return { person, session, other: sessionIn(await done(signIn(person))) };
}

const logout = (scope: string, bearer: string) => () => call(`POST /logout?scope=${scope}`, { bearer });

/** Calls that start, refresh or end sessions. */
export const sessionCalls: DirectCall[] = [
  {
    route: "POST /token?grant_type=password",
    title: "the first sign-in",
    events: ["sign_in"],
    async prepare() {
      const person = await createPerson();
      return { person, act: () => signIn(person) };
    },
  },
  {
    route: "POST /token?grant_type=password",
    title: "another sign-in from the same place, after an update of the app",
    events: ["sign_in"],
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => signIn(person, phoneAgent.replace("1.4", "1.5").replace("19.1", "19.2")) };
    },
  },
  {
    route: "POST /token?grant_type=password",
    title: "a sign-in by another app",
    events: ["sign_in"],
    mails: { sign_in: 1 },
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => signIn(person, "OtherClient/2.0 (Linux)") };
    },
  },
  {
    route: "POST /token?grant_type=password",
    title: "a wrong password",
    refused: true,
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => signIn({ ...person, password: "wrong horse battery" }) };
    },
  },
  {
    route: "POST /token?grant_type=refresh_token",
    title: "a refresh",
    async prepare() {
      const { person, session } = await signedIn();
      const body = { refresh_token: session.refreshToken };
      return { person, act: () => call("POST /token?grant_type=refresh_token", { body }) };
    },
  },
  {
    route: "POST /token?grant_type=refresh_token",
    title: "a refresh token that was used a minute ago",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      const refresh = () =>
        call("POST /token?grant_type=refresh_token", { body: { refresh_token: session.refreshToken } });
      await done(refresh());
      const { body } = await done(refresh());
      await done(call("POST /token?grant_type=refresh_token", { body: { refresh_token: body.refresh_token } }));
      await query(
        "update auth.refresh_tokens set updated_at = now() - interval '1 minute' where user_id::text = $1 and revoked",
        [person.id],
      );
      return { person, act: refresh };
    },
  },
  {
    route: "POST /signup",
    title: "a new address",
    async prepare() {
      const email = newAddress();
      return { person: { email }, act: () => call("POST /signup", { body: { email, password } }) };
    },
  },
  {
    route: "POST /signup",
    title: "an address that has an account",
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => call("POST /signup", { body: { email: person.email, password } }) };
    },
  },
  {
    route: "POST /signup",
    title: "an anonymous account",
    refused: true,
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => call("POST /signup", { body: {} }) };
    },
  },
  ...[
    { route: "POST /otp", title: "a mail with a code" },
    { route: "POST /magiclink", title: "a mail with a code" },
    { route: "POST /recover", title: "a mail with a link" },
  ].map(
    ({ route, title }): DirectCall => ({
      route,
      title,
      async prepare() {
        const { person } = await signedIn();
        return { person, act: () => call(route, { body: { email: person.email } }) };
      },
    }),
  ),
  {
    route: "POST /resend",
    title: "the mail of a sign-up",
    async prepare() {
      const { person } = await signedUp();
      const body = { type: "signup", email: person.email };
      await query("update auth.users set confirmation_sent_at = now() - interval '1 hour' where id = $1", [person.id]);
      return { person, act: () => call("POST /resend", { body }) };
    },
  },
  {
    route: "GET /reauthenticate",
    title: "a code for a password change",
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: () => call("GET /reauthenticate", { bearer: session.accessToken }) };
    },
  },
  {
    route: "POST /verify",
    title: "the link of a sign-up",
    events: ["sign_in"],
    async prepare() {
      const { person, token } = await signedUp();
      return { person, act: () => call("POST /verify", { body: { type: "signup", token_hash: token } }) };
    },
  },
  {
    route: "POST /verify",
    title: "the link of an invitation, which gives the account a random password",
    events: ["sign_in"],
    async prepare() {
      const email = newAddress();
      const { id } = (await done(callAsAdmin("POST /invite", { email }))).body;
      const body = { type: "invite", token_hash: await mailedToken(id, "confirmation_token") };
      return { person: { id }, act: () => call("POST /verify", { body }) };
    },
  },
  {
    route: "POST /verify",
    title: "a magic link",
    events: ["sign_in"],
    async prepare() {
      const { person, token } = await mailed("POST /otp");
      return { person, act: () => call("POST /verify", { body: { type: "magiclink", token_hash: token } }) };
    },
  },
  {
    route: "POST /verify",
    title: "a recovery link",
    events: ["sign_in"],
    async prepare() {
      const { person, token } = await mailed("POST /recover");
      return { person, act: () => call("POST /verify", { body: { type: "recovery", token_hash: token } }) };
    },
  },
  {
    route: "POST /verify",
    title: "a wrong code",
    refused: true,
    async prepare() {
      const { person } = await mailed("POST /otp");
      const body = { type: "email", email: person.email, token: "0000000000" };
      return { person, act: () => call("POST /verify", { body }) };
    },
  },
  {
    route: "GET /verify",
    title: "a recovery link in a browser, without PKCE",
    events: ["sign_in"],
    async prepare() {
      const { person, token } = await mailed("POST /recover");
      return { person, act: () => call(`GET /verify?type=recovery&token=${token}`) };
    },
  },
  {
    route: "GET /verify",
    title: "a recovery link in a browser, with PKCE",
    async prepare() {
      const { person, token } = await mailed("POST /recover", newChallenge().challenge);
      return { person, act: () => call(`GET /verify?type=recovery&token=${token}`) };
    },
  },
  {
    route: "POST /token?grant_type=pkce",
    title: "the code of a recovery link",
    events: ["sign_in"],
    async prepare() {
      const { challenge, verifier } = newChallenge();
      const { person, token } = await mailed("POST /recover", challenge);
      const { location } = await done(call(`GET /verify?type=recovery&token=${token}`));
      return { person, act: () => exchange(location, verifier) };
    },
  },
  {
    route: "POST /logout",
    title: "this session",
    events: ["sign_out"],
    async prepare() {
      const { person, session } = await onTwoPhones();
      return { person, act: logout("local", session.accessToken) };
    },
  },
  {
    route: "POST /logout",
    title: "the only session",
    events: ["sign_out"],
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: logout("local", session.accessToken) };
    },
  },
  {
    route: "POST /logout",
    title: "all other sessions",
    events: ["other_sessions_revoked"],
    mails: { other_sessions_revoked: 1 },
    async prepare() {
      const { person, session } = await onTwoPhones();
      await done(signIn(person));
      return { person, act: logout("others", session.accessToken) };
    },
  },
  {
    route: "POST /logout",
    title: "all other sessions, without any",
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: logout("others", session.accessToken) };
    },
  },
  {
    route: "POST /logout",
    title: "all sessions",
    events: ["all_sessions_revoked"],
    mails: { all_sessions_revoked: 1 },
    async prepare() {
      const { person, session } = await onTwoPhones();
      return { person, act: logout("global", session.accessToken) };
    },
  },
];
