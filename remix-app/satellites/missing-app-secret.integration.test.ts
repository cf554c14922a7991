import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, createApp, createPerson, type Person, service, type TestApp } from "../../scripts/test/apps.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { basicAuthorization } from "../http/authorization.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

const { supabase } = readStack();
const recorded = { nodeOptions: ["--import", new URL("../testing/record-connections.ts", import.meta.url).href] };
let app: TestApp;
let person: Person;

beforeAll(async () => {
  [person, app] = await Promise.all([createPerson(), createApp({ scopes: ["profile"] })]);
});
afterAll(() => service.auth.admin.deleteUser(person.id));

/** Returns the hosts that a process has connected to so far. */
const connections = (process: WebProcess) => [
  ...new Set([...process.output().matchAll(/^connects to (.*)$/gm)].map(([, place]) => place)),
];

describe("a platform without APP_SESSION_SECRET", () => {
  let web: WebProcess;
  beforeAll(async () => {
    const { url, publishableKey, secretKey } = supabase;
    const env = { SUPABASE_PUBLISHABLE_KEY: publishableKey, SUPABASE_SECRET_KEY: secretKey };
    web = await startWeb(url, { env, ...recorded });
  });
  afterAll(() => web.stop());

  test("the test's connection recorder sees the connection to the identity backend during a sign-in", async () => {
    await openBrowser(web.base).post("/login", { email: person.email, password: "wrong", returnUrl: "" });
    expect(connections(web)).toContain(new URL(supabase.url).host);
  });

  test("a platform without APP_SESSION_SECRET refuses handoffs and names the missing setting", async () => {
    const json = { "content-type": "application/json" };
    const minted = await web.fetch("/api/v1/auth/cross-app-tokens", {
      method: "POST",
      headers: { ...json, ...bearer(person.accessToken) },
      body: JSON.stringify({ targetApp: app.name }),
    });
    const redeemed = await web.fetch("/api/v1/auth/cross-app-tokens/validate", {
      method: "POST",
      headers: { ...json, authorization: basicAuthorization(app) },
      body: JSON.stringify({ token: "xat_none" }),
    });
    for (const answer of [minted, redeemed]) {
      const detail = "This platform is not set up for apps: APP_SESSION_SECRET is not set.";
      expect([answer.status, await answer.json()]).toMatchObject([503, { code: "UNAVAILABLE", detail }]);
    }
  });
});
