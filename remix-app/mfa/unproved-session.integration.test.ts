import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { enterApproved } from "../../scripts/test/approved-browser.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  requireMfa,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";
import { answersJson, everyRoute, openRoutes } from "../../scripts/test/routes.ts";
import { readStack } from "../../scripts/test/stack.ts";
import type { AuthenticatorApp } from "../testing/authenticator-app.ts";
import { accessTokenOf } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";

const { base } = readStack();
const people: Person[] = [];
const toChallenge = /^\/mfa(\?returnUrl=|$)/;
const closed = everyRoute.filter(({ route }) => !(route in openRoutes));

// The tests of all routes share one session per kind of account, because no route may change anything for that session.
async function arrive({
  required,
  sign = enter,
}: {
  required: boolean;
  sign?: (person: Person, app: AuthenticatorApp) => Promise<SignedInBrowser>;
}): Promise<SignedInBrowser> {
  const person = await createPerson();
  people.push(person);
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  if (required) await requireMfa(person);
  return sign(person, app);
}
afterAll(async () => {
  for (const person of people) await deletePerson(person);
});

describe.each([
  ["who enrolled an authenticator by choice", { required: false }],
  ["who must use MFA", { required: true }],
])("the session of a person %s, before the second factor", (_, account) => {
  let browser: SignedInBrowser;
  beforeAll(async () => {
    browser = await arrive(account);
  });

  test.concurrent.each(closed)("a session without its second factor can't open /$route", async ({ path }) => {
    let answer = await browser.get(path);
    // If the route redirects to another route, that route's answer counts.
    for (let hop = 0; hop < 3 && answer.location && !toChallenge.test(answer.location); hop += 1) {
      answer = await browser.get(answer.location);
    }
    const posted = answersJson(path) ? browser.postJson(path, {}) : browser.post(path, {});
    for (const { status, location, text } of [answer, await posted]) {
      if (status === 405) continue;
      if (answersJson(path)) expect([status, JSON.parse(text).code]).toEqual([403, "MFA_REQUIRED"]);
      else expect([status, location]).toEqual([302, expect.stringMatching(toChallenge)]);
    }
  });

  test("a session without its second factor can't read the data of any page", async () => {
    const pages = closed.filter(({ path }) => !answersJson(path));
    const answers = await Promise.all(pages.map(({ path }) => browser.get(`${path === "/" ? "/_root" : path}.data`)));
    for (const { status, text } of answers) {
      // Remix's single fetch answers 202 with the target of a redirect, and 404 or 405 for a route without data.
      expect(status === 202 ? /\/mfa/.test(text) || /\/login|\/settings/.test(text) : [404, 405].includes(status)).toBe(
        true,
      );
    }
  });
});

describe.each([
  ["an account that requires MFA", (person: Person) => enter(person)],
  ["a sign-in that a phone approved", enterApproved],
] as const)("requests with the bearer token of %s", (_, sign) => {
  let accessToken: string;
  beforeAll(async () => {
    accessToken = accessTokenOf(await arrive({ required: true, sign }));
  });

  test.concurrent.each(closed)("a bearer token without a second factor can't open /$route", async ({ path }) => {
    const call = (method: string) =>
      fetch(new URL(path, base), {
        method,
        redirect: "manual",
        headers: { authorization: `Bearer ${accessToken}`, "x-forwarded-for": newAddress() },
      });
    const answers = await Promise.all(["GET", "POST", "PATCH", "DELETE"].map(call));
    const opened = answers.filter(({ status }) => ![302, 403, 405].includes(status));
    expect(opened).toEqual([]);
    for (const { status, headers } of answers) {
      if (status === 302) expect(headers.get("location")).toMatch(/^\/(mfa|login|settings)/);
      // A response to a bearer token never sets cookies.
      expect(headers.getSetCookie()).toEqual([]);
    }
  });
});
