import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  type SignedInBrowser,
  signIn,
} from "../../scripts/test/people.ts";
import { urlRoutes } from "../../scripts/test/routes.ts";

let person: Person;
let browser: SignedInBrowser;
beforeAll(async () => {
  person = await createPerson();
  browser = await enter(person);
});
afterAll(() => deletePerson(person));

/** Pages that only finish a flow started by an email link, a provider or an app. A `returnUrl` never leads to them. */
const endsOfVisits = [
  "auth/confirm",
  "auth/callback",
  "oauth/authorize/decision",
  "oauth/logout",
  "oauth/logout/confirm",
];

/** Pages are .tsx files; form targets, downloads and the API are .ts files. */
const targets = urlRoutes
  .filter(({ path }) => path !== "*")
  .map(({ path = "", file }) => ({
    address: `/${path.replaceAll(/:(\w+)/g, "x")}`,
    isPage: file.endsWith(".tsx") && !endsOfVisits.includes(path),
  }));

async function landing(returnUrl: string): Promise<string | null> {
  return (await browser.get(`/login?${new URLSearchParams({ returnUrl })}`)).location;
}

test("redirects a signed-in person to any page, but not to form targets, downloads, the API or pages that only finish a flow", async () => {
  expect(targets.filter(({ isPage }) => !isPage).length).toBeGreaterThan(50);
  const landings: [string, string | null][] = [];
  for (const { address } of targets) landings.push([address, await landing(`${address}?a=b`)]);
  expect(landings).toEqual(targets.map(({ address, isPage }) => [address, isPage ? `${address}?a=b` : "/"]));
});

test.each([
  "/assets/app.js",
  "/favicon.svg",
  "/healthz",
  "/nothing",
  "/workspaces.data",
  "/%6cogin%2Edata",
  "/%6cogout",
  "/x/../logout",
])("does not redirect a signed-in person to %s", async (address) => {
  expect(await landing(address)).toBe("/");
});

test("a sign-in never redirects to another site", async () => {
  for (const returnUrl of [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example",
    "/.//evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "https:evil.example",
    "http://localhost@evil.example/",
  ]) {
    const { location } = await signIn(person, { returnUrl });
    expect([returnUrl, location, await landing(returnUrl)]).toEqual([returnUrl, "/", "/"]);
  }
});
