import type { DirectCall } from "./journey.ts";
import {
  answerPasskey,
  beginPasskey,
  call,
  challengeOf,
  done,
  enroll,
  prove,
  raised,
  sessionIn,
  signedIn,
  signIn,
  withPasskey,
} from "./phone.ts";

const verifyRoute = "POST /factors/:id/verify";
const registerRoute = "POST /passkeys/registration/verify";

/** Calls that add, use and remove authenticators and passkeys. */
export const factorCalls: DirectCall[] = [
  {
    route: "POST /factors",
    title: "an authenticator that is not verified yet",
    async prepare() {
      const { person, session } = await signedIn();
      const body = { factor_type: "totp", friendly_name: "App" };
      return { person, act: () => call("POST /factors", { bearer: session.accessToken, body }) };
    },
  },
  {
    route: "POST /factors",
    title: "an authenticator, from a session without the second factor",
    refused: true,
    async prepare() {
      const { person } = await raised();
      const { accessToken } = sessionIn(await done(signIn(person)));
      const body = { factor_type: "totp", friendly_name: "App" };
      return { person, act: () => call("POST /factors", { bearer: accessToken, body }) };
    },
  },
  ...["phone", "webauthn"].map(
    (type): DirectCall => ({
      route: "POST /factors",
      title: `a factor of type ${type}`,
      refused: true,
      async prepare() {
        const { person, session } = await signedIn();
        const body = { factor_type: type, friendly_name: "App", phone: "15555550100" };
        return { person, act: () => call("POST /factors", { bearer: session.accessToken, body }) };
      },
    }),
  ),
  {
    route: "POST /factors/:id/challenge",
    title: "a challenge",
    async prepare() {
      const { person, session } = await signedIn();
      const { id } = await enroll(session.accessToken);
      const route = `POST /factors/${id}/challenge`;
      return { person, act: () => call(route, { bearer: session.accessToken, body: {} }) };
    },
  },
  {
    route: verifyRoute,
    title: "the first authenticator of an account",
    events: ["authenticator_added"],
    mails: { authenticator_added: 1 },
    unconfirmed: ["authenticator"],
    async prepare() {
      const { person, session } = await signedIn();
      await done(signIn(person));
      const factor = await enroll(session.accessToken);
      return { person, act: () => prove(session.accessToken, factor) };
    },
  },
  {
    route: verifyRoute,
    title: "a second authenticator",
    refused: true,
    async prepare() {
      const { person, session } = await raised();
      const factor = await enroll(session.accessToken);
      return { person, act: () => prove(session.accessToken, factor) };
    },
  },
  {
    route: verifyRoute,
    title: "the second step of a sign-in",
    async prepare() {
      const { person, factor } = await raised();
      const session = sessionIn(await done(signIn(person)));
      return { person, act: () => prove(session.accessToken, factor, 1) };
    },
  },
  {
    route: verifyRoute,
    title: "a wrong code",
    refused: true,
    async prepare() {
      const { person, session } = await signedIn();
      const factor = await enroll(session.accessToken);
      const body = { challenge_id: await challengeOf(session.accessToken, factor), code: "00000x" };
      const route = `POST /factors/${factor.id}/verify`;
      return { person, act: () => call(route, { bearer: session.accessToken, body }) };
    },
  },
  {
    route: "DELETE /factors/:id",
    title: "an authenticator",
    events: ["authenticator_removed"],
    mails: { authenticator_removed: 1 },
    async prepare() {
      const { person, session, factor } = await raised();
      return { person, act: () => call(`DELETE /factors/${factor.id}`, { bearer: session.accessToken }) };
    },
  },
  {
    route: "DELETE /factors/:id",
    title: "an authenticator, from a session without the second factor",
    refused: true,
    async prepare() {
      const { person, factor } = await raised();
      const { accessToken } = sessionIn(await done(signIn(person)));
      return { person, act: () => call(`DELETE /factors/${factor.id}`, { bearer: accessToken }) };
    },
  },
  {
    route: "DELETE /factors/:id",
    title: "an authenticator that was never verified",
    async prepare() {
      const { person, session } = await signedIn();
      const { id } = await enroll(session.accessToken);
      return { person, act: () => call(`DELETE /factors/${id}`, { bearer: session.accessToken }) };
    },
  },

  {
    route: "POST /passkeys/registration/options",
    title: "the beginning of a registration",
    async prepare() {
      const { person, session } = await signedIn();
      const options = { bearer: session.accessToken, body: {} };
      return { person, act: () => call("POST /passkeys/registration/options", options) };
    },
  },
  {
    route: registerRoute,
    title: "a passkey",
    events: ["passkey_added"],
    mails: { passkey_added: 1 },
    unconfirmed: ["passkey"],
    async prepare() {
      const { person, session } = await signedIn();
      const body = await beginPasskey(session.accessToken);
      return { person, act: () => call(registerRoute, { bearer: session.accessToken, body }) };
    },
  },
  {
    route: registerRoute,
    title: "a passkey on an account with an authenticator",
    refused: true,
    async prepare() {
      const { person, session } = await raised();
      const body = await beginPasskey(session.accessToken);
      return { person, act: () => call(registerRoute, { bearer: session.accessToken, body }) };
    },
  },
  {
    route: "PATCH /passkeys/:id",
    title: "another name",
    events: ["passkey_renamed"],
    async prepare() {
      const { person, session, passkeyId } = await withPasskey();
      const options = { bearer: session.accessToken, body: { friendly_name: "Blue key" } };
      return { person, act: () => call(`PATCH /passkeys/${passkeyId}`, options) };
    },
  },
  {
    route: "DELETE /passkeys/:id",
    title: "a passkey",
    events: ["passkey_removed"],
    mails: { passkey_removed: 1 },
    async prepare() {
      const { person, session, passkeyId } = await withPasskey();
      return { person, act: () => call(`DELETE /passkeys/${passkeyId}`, { bearer: session.accessToken }) };
    },
  },
  {
    route: "POST /passkeys/authentication/options",
    title: "the beginning of a sign-in",
    async prepare() {
      const { person } = await withPasskey();
      return { person, act: () => call("POST /passkeys/authentication/options", { body: {} }) };
    },
  },
  {
    route: "POST /passkeys/authentication/verify",
    title: "a sign-in",
    events: ["sign_in"],
    async prepare() {
      const { person, authenticator } = await withPasskey();
      const body = await answerPasskey(authenticator);
      return { person, act: () => call("POST /passkeys/authentication/verify", { body }) };
    },
  },
];
