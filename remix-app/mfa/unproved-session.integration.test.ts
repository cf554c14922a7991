import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, deletePerson, type Person, type SignedInBrowser, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import routes from "../routes.ts";
import { enrollApps } from "../testing/authenticator-app.ts";

const { supabase } = readStack();
let person: Person;
let browser: SignedInBrowser;

// One session for all: nothing that it may do changes anything.
beforeAll(async () => {
  person = await createPerson();
  await enrollApps(supabase, { ...person, names: ["Phone"] });
  browser = await signIn(person);
});
afterAll(() => deletePerson(person));

const toChallenge = /^\/mfa(\?returnUrl=|$)/;

/** What a session that has yet to prove its second factor may open, and what it gets there. */
const open: Record<string, string> = {
  mfa: "the challenge itself",
  "mfa/app": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges/:id": "the challenge itself, on a phone",
  "api/v1/auth/qr-login/challenges/:id": "how a request of its own stands; to consume one is more",
  "qr/open": "the same for everyone",
  "mfa/recovery": "the way out for who lost the app",
  login: "to be somebody else",
  "login/passkey": "to be somebody else",
  "login/passkey/options": "to be somebody else",
  "add-account": "to be somebody else",
  "add-account/new": "to be somebody else",
  accounts: "to be somebody else",
  "api/v1/auth/accounts": "to be somebody else; the browser's own secret opens it",
  "api/v1/auth/accounts/switch": "to be somebody else; the browser's own secret opens it",
  "api/v1/auth/accounts/logout": "the way out",
  "api/v1/auth/accounts/logout-all": "the way out",
  "auth/oauth/:provider": "to be somebody else",
  "auth/callback": "its code is the credential",
  logout: "the way out",
  signup: "to be somebody else",
  "signup/check-mail": "asks for a mail, and knows no session",
  "forgot-password": "asks for a mail, and knows no session",
  "auth/confirm": "its link is the credential",
  "auth/recovery": "its link or code is the credential",
  theme: "appearance",
  "api/v1/auth/cross-app-tokens/validate": "an app's own credential",
  "api/v1/auth/app-sessions/introspect": "an app's own credential",
  "api/v1/auth/app-sessions/refresh": "an app's own credential",
  "api/v1/auth/app-sessions/revoke": "an app's own credential",
  "api/v1/auth/app-token/exchange": "an app's own credential",
  "api/ai/generate": "the gateway's own credentials; no cookie counts",
  ".well-known/passkey-endpoints": "the same for everyone",
  "api/v1/auth/session": "says that a second step is due",
  satellite: "not of the platform",
  "w/:workspaceId": "not of the platform",
  "sign-in": "not of the platform",
  "sign-out": "not of the platform",
  "verify-token": "not of the platform",
  "api/auth/verify-app-token": "not of the platform",
  "*": "nothing is there",
};

describe("a session that has yet to prove its second factor", () => {
  const paths = routes.map((route) => ({ route: route.index ? "" : (route.path ?? "") }));

  test.each(paths.filter(({ route }) => !(route in open)))("opens nothing at /$route", async ({ route }) => {
    const path = `/${route.replace(":provider", "github").replaceAll(/:\w+/g, () => crypto.randomUUID())}`;
    // Scripts post a passkey there, and read the answer.
    const api = path.startsWith("/api/") || path === "/step-up/passkey";
    let answer = await browser.get(path);
    // An address may merely stand for another one, whose answer counts then.
    for (let hop = 0; hop < 3 && answer.location && !toChallenge.test(answer.location); hop += 1) {
      answer = await browser.get(answer.location);
    }
    for (const { status, location, text } of [answer, await browser.post(path, {})]) {
      if (status === 405) continue;
      if (api) expect([status, JSON.parse(text).code]).toEqual([403, "MFA_REQUIRED"]);
      else expect([status, location]).toEqual([302, expect.stringMatching(toChallenge)]);
    }
  });

  test.each(Object.keys(open).filter((route) => open[route] === "not of the platform"))(
    "finds nothing at /%s, which is a satellite's",
    async (route) => {
      expect((await browser.get(`/${route.replace(":workspaceId", crypto.randomUUID())}`)).status).toBe(404);
    },
  );
});
