import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../../scripts/test/identity-backend.ts";
import { createHelper } from "../../scripts/test/recovery-help.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import type { WebProcess } from "../testing/web-process.ts";

let backend: IdentityBackend;
let web: WebProcess;
const password = "correct horse battery";
const bootCheck = "POST /auth/v1/passkeys/authentication/options";

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await backend.startWeb({ env: { TRUSTED_PROXY_HOPS: "1" } });
  await vi.waitUntil(() => backend.count(bootCheck) > 0, { timeout: 10_000 });
});
beforeEach(async () => {
  await backend.newPerson();
  backend.reset();
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

const signIn = (browser: Browser) => browser.post("/login", { email: backend.person.email, password });

async function enterCode(browser: Browser) {
  await browser.post("/login/code", { email: backend.person.email });
  backend.reset();
  return browser.post("/login/code", { code: "12345678" });
}

const newBrowser = async () => openBrowser(web.base);

async function knownBrowser() {
  const cookie = await backend.cookieOf(await backend.session(), { origin: web.base });
  await backend.newPerson();
  return openBrowser(web.base, { cookie });
}

async function underOverride() {
  const helper = await createHelper();
  await helper.override(backend.person.email);
  await helper.leave();
  return openBrowser(web.base);
}

/** The calls at the end of each sign-in, which are sent at the same time. */
const lastCalls = ["record_security_event", "session_state"];

test.each([
  [
    "by password in a new browser",
    newBrowser,
    signIn,
    ["begin_attempt", "token", "complete_attempt", "sign_in_account"],
  ],
  [
    "by password in a browser with another account",
    knownBrowser,
    signIn,
    ["device_session_state", "begin_attempt", "token", "complete_attempt", "add_account"],
  ],
  [
    "by password under a recovery override",
    underOverride,
    signIn,
    ["begin_attempt", "token", "record_recovery_event", "complete_attempt", "sign_in_account"],
  ],
  ["by an emailed code", newBrowser, enterCode, ["begin_attempt", "verify", "complete_attempt", "sign_in_account"]],
])("a sign-in %s waits for no other calls", async (_, open, signInWith, expected) => {
  const browser = await open();
  backend.calls.length = 0;
  expect((await signInWith(browser)).location).toBe("/");
  const calls = backend.calls
    .map((call) => call.slice(call.lastIndexOf("/") + 1))
    .filter((name) => name !== "jwks.json");
  expect(calls.slice(0, -2)).toEqual(expected);
  expect(calls.slice(-2).sort()).toEqual(lastCalls);
});
