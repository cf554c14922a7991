import { beforeEach, describe, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { visitorHeaders } from "../testing/visitor.ts";

const { base } = readStack();

/**
 * Form actions that don't need `pageAccount`. These forms name their account in another field, or do not depend on an
 * account.
 */
const anybodys = ["/accounts", "/logout", "/theme"];

let ada: Person;
let bob: Person;
let browser: SignedInBrowser;

beforeEach(async () => {
  [ada, bob] = await Promise.all([createPerson(), createPerson()]);
  browser = await enter(bob);
  await browser.post("/add-account", { ...ada });
  return async () => {
    await Promise.all([ada, bob].map(deletePerson));
  };
});

const switchTo = ({ id }: Person) => browser.postJson("/api/v1/auth/accounts/switch", { accountId: id });

interface PageForm {
  action: string;
  fields: Record<string, string>;
}

/** Returns a page's state-changing forms with their default fields. */
async function formsOf(page: string): Promise<PageForm[]> {
  const { status, text } = await browser.get(page);
  expect(status, page).toBe(200);
  return [...text.matchAll(/<form([^>]*)>(.*?)<\/form>/gs)]
    .filter(([, attributes = ""]) => attributes.includes('method="post"'))
    .map(([, attributes = "", content = ""]) => {
      const inputs = [...content.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
      const action = /action="([^"]*)"/.exec(attributes)?.[1] ?? page;
      return { action, fields: Object.fromEntries(inputs.map(([, name, value]) => [name, value])) };
    });
}

describe("forms on an account's page", () => {
  test.each([
    "/settings/profile",
    "/settings/profile/email",
    "/settings/security",
    "/settings/security/password",
    "/settings/security/delete-account",
    "/reset-password",
    "/mfa/enroll",
    "/qr",
    "/workspaces",
  ])("each form on %s contains the id of its account", async (page) => {
    const forms = (await formsOf(page)).filter(({ action }) => !anybodys.includes(action));
    expect(forms).not.toEqual([]);
    for (const { fields } of forms) expect(fields).toMatchObject({ pageAccount: ada.id });
  });

  test.each([
    ["/settings/profile", { displayName: "Ada Lovelace", avatarUrl: "" }],
    ["/settings/profile/email", { email: "ada.lovelace@integration.gatehouse.test" }],
    ["/settings/security/password", { password: "three unrelated words" }],
    ["/mfa/enroll", { step: "start", name: "" }],
    ["/workspaces", { name: "Of Ada" }],
  ])("a form on %s does not affect the account that another tab has switched to", async (page, typed) => {
    const form = (await formsOf(page)).find(({ action }) => action.split("?")[0] === page);
    await switchTo(bob);
    const before = await stateOf(bob);
    expect(await browser.post(page, { ...form?.fields, ...typed })).toMatchObject({ status: 409, location: null });
    expect(await stateOf(bob)).toEqual(before);
  });

  test("a form on the security page is refused with 409 after a switch to another account", async () => {
    const forms = (await formsOf("/settings/security")).filter(({ action }) => !anybodys.includes(action));
    await switchTo(bob);
    for (const { action, fields } of forms) {
      expect(await browser.post(action, fields), action).toMatchObject({ status: 409, location: null });
    }
  });

  test("a refused form names the active account and links back to the page and to the list of accounts", async () => {
    const forms = await formsOf("/settings/security");
    const form = forms.find(({ fields }) => fields.intent === "sign_out");
    await switchTo(bob);
    const headers = {
      "content-type": "application/x-www-form-urlencoded",
      referer: `${base}/settings/security?at=sessions`,
      accept: "text/html",
      cookie: browser.cookie(),
      ...visitorHeaders(),
    };
    const body = new URLSearchParams(form?.fields);
    const refused = await fetch(`${base}/accounts`, { method: "POST", headers, body });
    const page = await refused.text();
    expect(refused.status).toBe(409);
    expect(page.replaceAll("<wbr/>", "")).toContain(`You’re now signed in as ${bob.email}`);
    expect(page).toContain('href="/settings/security?at=sessions"');
    expect(page).toContain('href="/accounts?returnUrl=%2Fsettings%2Fsecurity%3Fat%3Dsessions"');
  });

  test("a form of another account is refused with 409 even if the active account cannot open the page", async () => {
    const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
      ada.id,
    ]);
    const page = `/workspaces/${workspace?.id}/settings`;
    const form = (await formsOf(page)).find(({ fields }) => fields.pageAccount === ada.id);
    await switchTo(bob);
    for (const action of [page, `/workspaces/${workspace?.id}/ai/policy`, "/admin/apps/new"]) {
      expect(await browser.post(action, { ...form?.fields, name: "Of Bob" }), action).toMatchObject({ status: 409 });
    }
    expect(await browser.post(page, { ...form?.fields, pageAccount: bob.id })).toMatchObject({ status: 404 });
  });

  test("the passkey page's request adds no passkey to the account that another tab has switched to", async () => {
    const options = "/settings/security/passkeys/options";
    const ofAda = { pageAccount: ada.id };
    expect(await browser.postJson(options, ofAda)).toMatchObject({ status: 200 });
    await switchTo(bob);
    expect(await browser.postJson(options, ofAda)).toMatchObject({ status: 409 });
    expect(await browser.postJson(options, { pageAccount: bob.id })).toMatchObject({ status: 200 });
  });

  test("a sign-out form from another account's page is refused and leaves the active account signed in", async () => {
    const forms = await formsOf("/settings/security");
    const signOut = forms.find(({ action, fields }) => action === "/accounts" && fields.intent === "sign_out");
    await switchTo(bob);
    expect(await browser.post("/accounts", signOut?.fields ?? {})).toMatchObject({ status: 409 });
    expect((await browser.session()).user.id).toBe(bob.id);
  });
});

/** Returns the parts of an account that the tested forms change. */
async function stateOf({ id }: Person) {
  return query(
    `select encrypted_password, email_change, raw_user_meta_data,
       (select count(*) from auth.mfa_factors where user_id = users.id) as factors,
       (select count(*) from public.workspaces where created_by = users.id) as workspaces
     from auth.users where id = $1`,
    [id],
  );
}
