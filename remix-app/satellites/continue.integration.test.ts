import { beforeEach, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";

const { satellites } = readStack();
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
