import { createPerson, type Person, query } from "../../../scripts/test/people.ts";
import type { DirectCall } from "./journey.ts";
import {
  authorizePath,
  beginLink,
  beginOAuth,
  call,
  callbackOf,
  done,
  exchange,
  identityOf,
  landed,
  link,
  linkPath,
  newAddress,
  newChallenge,
  provider,
  raised,
  type Session,
  sessionIn,
  signedIn,
  visit,
} from "./phone.ts";

/**
 * Starts linking a provider account to a session's account. @returns a function that follows the provider's redirect
 * back
 */
async function returning({ accessToken }: Session, answer: { email: string }, challenge: object = {}) {
  const address = await beginLink(accessToken, challenge);
  return async () => landed(await visit(address, answer));
}

/** Starts a sign-in with a provider. @returns a function that follows the provider's redirect back */
async function arriving(email: string, challenge: object = {}) {
  const address = await beginOAuth(challenge);
  return async () => landed(await visit(address, { email }));
}

async function unlinkEmail(person: Person, { accessToken }: Session) {
  const id = await identityOf(accessToken, "email");
  return { person, act: () => call(`DELETE /user/identities/${id}`, { bearer: accessToken }) };
}

/** Calls that add, remove and use provider identities. */
export const identityCalls: DirectCall[] = [
  {
    route: "GET /authorize",
    title: "the beginning of a sign-in",
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => call(`GET ${authorizePath}`) };
    },
  },
  {
    route: "GET /callback",
    title: "a new account, with PKCE",
    async prepare() {
      const email = newAddress();
      return { person: { email }, act: await arriving(email, newChallenge().challenge) };
    },
  },
  {
    route: "POST /token?grant_type=pkce",
    title: "the code of a new account",
    events: ["sign_in"],
    async prepare() {
      const email = newAddress();
      const { challenge, verifier } = newChallenge();
      const { location } = await (await arriving(email, challenge))();
      return { person: { email }, act: () => exchange(location, verifier) };
    },
  },
  {
    route: "GET /callback",
    title: "a new account, without PKCE",
    events: ["sign_in"],
    async prepare() {
      const email = newAddress();
      return { person: { email }, act: await arriving(email) };
    },
  },
  {
    route: "POST /callback",
    title: "a new account, from a provider that posts the answer",
    events: ["sign_in"],
    async prepare() {
      const email = newAddress();
      const { searchParams } = await callbackOf(await beginOAuth(), { email });
      const form = Object.fromEntries(searchParams);
      return { person: { email }, act: () => call("POST /callback", { form }) };
    },
  },
  {
    route: "GET /callback",
    title: "an account whose address the provider has verified: linked automatically, with PKCE",
    events: ["identity_linked"],
    mails: { identity_linked: 1 },
    async prepare() {
      const { person } = await signedIn();
      return { person, act: await arriving(person.email, newChallenge().challenge) };
    },
  },
  {
    route: "GET /callback",
    title: "an account with an authenticator whose address the provider has verified: linked automatically",
    events: ["identity_linked"],
    mails: { identity_linked: 1 },
    async prepare() {
      const { person } = await raised();
      return { person, act: await arriving(person.email, newChallenge().challenge) };
    },
  },
  {
    route: "POST /token?grant_type=pkce",
    title: "the code of an account that was linked automatically",
    events: ["sign_in"],
    async prepare() {
      const person = await createPerson();
      const { challenge, verifier } = newChallenge();
      const { location } = await (await arriving(person.email, challenge))();
      return { person, act: () => exchange(location, verifier) };
    },
  },
  {
    route: "GET /callback",
    title: "a provider's account that is linked already",
    events: ["sign_in"],
    mails: { sign_in: 1 },
    async prepare() {
      const { person } = await signedIn();
      await (await arriving(person.email, newChallenge().challenge))();
      return { person, act: await arriving(person.email) };
    },
  },
  {
    route: "GET /callback",
    title: "an account that somebody signed up for and never confirmed: it loses its password",
    async prepare() {
      const email = newAddress();
      await done(call("POST /signup", { body: { email, password: "correct horse battery" } }));
      return { person: { email }, act: await arriving(email, newChallenge().challenge) };
    },
  },
  {
    route: "GET /callback",
    title: "a sign-in that was cancelled at the provider",
    refused: true,
    async prepare() {
      const { person } = await signedIn();
      const address = await beginOAuth();
      return { person, act: async () => landed(await visit(address, { email: person.email, cancel: true })) };
    },
  },

  {
    route: "GET /user/identities/authorize",
    title: "the beginning of a link",
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: () => call(`GET ${linkPath}`, { bearer: session.accessToken }) };
    },
  },
  {
    route: "GET /callback",
    title: "a direct link, with PKCE",
    events: ["identity_linked"],
    mails: { identity_linked: 1 },
    unconfirmed: ["identity"],
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: await returning(session, { email: newAddress() }, newChallenge().challenge) };
    },
  },
  {
    route: "POST /token?grant_type=pkce",
    title: "the code of a direct link",
    events: ["sign_in"],
    async prepare() {
      const { person, session } = await signedIn();
      const { challenge, verifier } = newChallenge();
      const { location } = await (await returning(session, { email: newAddress() }, challenge))();
      return { person, act: () => exchange(location, verifier) };
    },
  },
  {
    route: "GET /callback",
    title: "a direct link, without PKCE",
    events: ["identity_linked", "sign_in"],
    // The browser has not signed in before, so the owner is also emailed about a sign-in.
    mails: { identity_linked: 1, sign_in: 1 },
    unconfirmed: ["identity"],
    async prepare() {
      const { person, session } = await signedIn();
      return { person, act: await returning(session, { email: newAddress() }) };
    },
  },
  {
    route: "GET /callback",
    title: "a direct link to an account with an authenticator",
    refused: true,
    async prepare() {
      const { person, session } = await raised();
      return { person, act: await returning(session, { email: newAddress() }, newChallenge().challenge) };
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "an identity",
    events: ["identity_unlinked"],
    mails: { identity_unlinked: 1 },
    async prepare() {
      const { person, session } = await signedIn();
      const id = await link(session.accessToken);
      return { person, act: () => call(`DELETE /user/identities/${id}`, { bearer: session.accessToken }) };
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "the email identity, so that the account's address becomes another identity's",
    events: ["email_changed"],
    mails: { email_changed: 2 },
    async prepare() {
      const { person, session } = await signedIn();
      await link(session.accessToken);
      await query("delete from private.unconfirmed_additions where user_id = $1", [person.id]);
      return unlinkEmail(person, session);
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "the email identity, so that the account's address becomes an unconfirmed identity's",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      await link(session.accessToken);
      return unlinkEmail(person, session);
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "the email identity, so that the account's address becomes one that no provider has verified",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      const id = await link(session.accessToken);
      await query("delete from private.unconfirmed_additions where user_id = $1", [person.id]);
      await query(
        `update auth.identities set identity_data = identity_data || '{"email_verified": false}' where id = $1`,
        [id],
      );
      return unlinkEmail(person, session);
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "the email identity, so that an unconfirmed identity without an address is left",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      await query(
        `insert into auth.identities
           (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
         values ($1, $2, jsonb_build_object('sub', $1::text), $3, now(), now(), now())`,
        [crypto.randomUUID(), person.id, provider],
      );
      return unlinkEmail(person, session);
    },
  },
  {
    route: "DELETE /user/identities/:id",
    title: "the only identity",
    refused: true,
    async prepare() {
      const { challenge, verifier } = newChallenge();
      const email = newAddress();
      const { location } = await (await arriving(email, challenge))();
      const { accessToken } = sessionIn(await done(exchange(location, verifier)));
      const id = await identityOf(accessToken);
      return { person: { email }, act: () => call(`DELETE /user/identities/${id}`, { bearer: accessToken }) };
    },
  },
];
