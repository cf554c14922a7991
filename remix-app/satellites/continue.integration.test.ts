import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { createApp, service } from "../../scripts/test/apps.ts";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPlainTab } from "../testing/plain-tab.ts";

const { base, satellites } = readStack();
const [notes] = satellites;
const here = `/continue?${new URLSearchParams({ returnUrl: `${notes?.url}/` })}`;

let ada: Person;
let bob: Person;
let browser: SignedInBrowser;

beforeEach(async () => {
  [ada, bob] = await Promise.all([createPerson(), createPerson()]);
  browser = await enter(bob);
  await browser.post("/add-account", { email: ada.email, password: ada.password });
  return async () => {
    await Promise.all([ada, bob].map(deletePerson));
  };
});

/** Loads the page. @returns its text and the fields of its form */
async function openPage() {
  const { text, words } = await browser.get(here);
  const [form = ""] = /<form(?![^>]*action="\/accounts").*?<\/form>/s.exec(text) ?? [];
  const fields = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  return { words, fields: Object.fromEntries(fields.map(([, name, value]) => [name, value])) };
}

test("the handoff page lists what the app may do before the person continues", async () => {
  const { words } = await openPage();
  const rights = words.slice(0, words.indexOf("Continue as"));
  expect(rights).toContain(
    "Notes will be able to: See your name, email and picture See your workspaces and your role in each Rename workspaces whose settings you manage",
  );
});

test("continuing on the handoff page signs in to the app with the account that the page names", async () => {
  const { words, fields } = await openPage();
  expect(words).toContain(`Continue as ${ada.email}`);
  const { status, location } = await browser.post(here, fields);
  expect([status, location]).toEqual([303, expect.stringMatching(`^${notes?.url}/verify-token\\?token=xat_`)]);
});

test("if another tab has switched accounts since the handoff page was loaded, the page hands no account over and asks again", async () => {
  const { fields } = await openPage();
  await browser.postJson("/api/v1/auth/accounts/switch", { accountId: bob.id });
  expect(await browser.post(here, fields)).toMatchObject({ status: 303, location: here });
  expect((await openPage()).words).toContain(`Continue as ${bob.email}`);
});

/** Starts an app on its own origin, which answers its sign-in callback with a status. */
async function startApp(displayName: string, callbackStatus = 200) {
  const server = createServer((_, response) => response.writeHead(callbackStatus).end(`<h1>${displayName}</h1>`));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const app = await createApp({ scopes: ["profile"], displayName, origins: [origin] });
  return { app, stop: () => server.close(), login: `/login?${new URLSearchParams({ returnUrl: `${origin}/` })}` };
}

test("a person who is already signed in is asked for consent to an app, and can choose another account", async () => {
  const fieldNotes = await startApp("Field notes");
  const tab = openPlainTab(base, await enter(bob));
  await tab.open(fieldNotes.login);
  expect(tab.buttons()).toContain(`Continue as ${bob.email}`);
  await tab.follow("Use another account");
  expect(tab.words()).toContain("To continue to Field notes.");
  tab.fill("Email", ada.email);
  tab.fill("Password", ada.password);
  await tab.press("Sign in");
  // Both accounts are signed in to this browser, and the person can continue to the app with either account.
  expect(tab.buttons()).toContain(`Continue as ${ada.email}`);
  await tab.press(new RegExp(`^Continue as .*${bob.email}$`));
  expect(tab.buttons()).toContain(`Continue as ${bob.email}`);
  expect(tab.path()).toContain("/continue?returnUrl=");
  await tab.press(`Continue as ${bob.email}`);
  expect(tab.heading()).toBe("Field notes");
  fieldNotes.stop();
});

test("continuing to an app that is disabled or has no sign-in callback shows an explanation", async () => {
  const tab = openPlainTab(base, await enter(bob));
  const unfinished = await startApp("Half an app", 404);
  await tab.open(unfinished.login);
  await tab.press(/^Continue as/);
  expect(tab.alert()).toContain("/verify-token is missing");
  unfinished.stop();

  const { app, stop, login } = await startApp("Field notes");
  const off = { app_name: app.name, enabled: false, reason: "test" };
  expect((await service.schema("private").rpc("set_app_enabled", off)).error).toBeNull();
  await tab.open(login);
  expect(tab.heading()).toBe("Field notes is turned off");
  stop();
});
