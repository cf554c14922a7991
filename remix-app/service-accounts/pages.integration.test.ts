import { exportJWK, generateKeyPair } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";
import { requestToken } from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPlainTab } from "../testing/plain-tab.ts";

const { base } = readStack();
let admin: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, person] = await Promise.all([createConsoleAdmin(), createPerson()]);
});
afterAll(async () => {
  await query("delete from private.service_accounts where created_by = any ($1)", [[admin.id, person.id]]);
  await Promise.all([admin, person].map(deletePerson));
});

const reason = "The nightly import, ticket 7";
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
const newName = () => `Import ${crypto.randomUUID().slice(0, 8)}`;
const secretIn = (text: string) => [...text.matchAll(/select-all[^>]*>([\w-]{43})</g)].at(-1)?.[1] ?? "";
const idIn = (text: string) => /svc_([0-9a-f-]{36})/.exec(text)?.[1] ?? "";
const statusOfToken = async (id: string, client_secret: string) =>
  (await requestToken({ grant_type: "client_credentials", client_id: `svc_${id}`, client_secret })).status;

/** The fields of a new service account with a secret, which the browser posts to a list's page `new`. */
const filled = (name: string) => ({
  name,
  scope_admin_books: "on",
  allowedAddresses: "",
  expiresOn: inDays(30),
  credential: "secret",
  publicKey: "",
  reason,
});

const pages = "/admin/service-accounts";
const versionOf = async (browser: SignedInBrowser, page: string) =>
  /name="version" value="([^"]*)"/.exec((await browser.get(`${page}/edit`)).text)?.[1] ?? "";

describe("service accounts of the platform", () => {
  test("are created with a secret that one page shows, and each later change is audited with its reason", async () => {
    const name = newName();
    const made = await admin.browser.post(`${pages}/new`, filled(name));
    const [id, secret] = [idIn(made.text), secretIn(made.text)];
    expect([made.status, made.headers.get("cache-control")]).toEqual([200, "private, no-store"]);
    expect(await statusOfToken(id, secret)).toBe(200);
    const page = `${pages}/${id}`;
    const shown = await admin.browser.get(page);
    expect(shown.text).not.toContain(secret);
    expect(shown.words).toContain("Use the platform’s books");
    expect((await admin.browser.get(pages)).words).toContain(name);

    const change = async (step: string, more: Record<string, string> = {}) =>
      admin.browser.post(`${page}/${step}`, { reason, version: await versionOf(admin.browser, page), ...more });
    const settings = { name: `${name} II`, expiresOn: inDays(40), allowedAddresses: "192.0.2.0/24\n2001:db8::/32" };
    expect((await change("edit", { ...settings, scope_admin_audit_read: "on" })).location).toBe(`${page}?done`);
    const outdated = { ...settings, reason, version: "0", scope_admin_books: "on" };
    const late = await admin.browser.post(`${page}/edit`, outdated);
    expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${admin.email} changed it on`)]);
    expect((await change("disable", { reason: "" })).status).toBe(400);
    expect((await change("disable")).location).toBe(`${page}?done`);
    expect((await admin.browser.get(page)).words).toContain("This service account is disabled");
    expect((await change("enable")).location).toBe(`${page}?done`);

    const untyped = await change("revoke");
    expect([untyped.status, untyped.words]).toEqual([400, expect.stringContaining(`Type “${name} II” to confirm`)]);
    expect((await change("revoke", { confirmation: `${name} II` })).location).toBe(`${page}?done`);
    expect((await admin.browser.get(`${page}/edit`)).status).toBe(404);
    const actions = await query<{ action: string; reason: string }>(
      "select action, reason from private.admin_audit_log where target = $1 order by created_at",
      [`service account ${id}`],
    );
    expect(actions.map(({ action }) => action)).toEqual(
      ["add", "edit", "disable", "enable", "revoke"].map((step) => `service_account.${step}`),
    );
    expect(new Set(actions.map((line) => line.reason))).toEqual(new Set([reason]));
  });

  test("get a new secret with an overlap, and a key, and lose credentials one by one", async () => {
    const made = await admin.browser.post(`${pages}/new`, filled(newName()));
    const [id, first] = [idIn(made.text), secretIn(made.text)];
    const page = `${pages}/${id}`;
    const rotated = await admin.browser.post(`${page}/rotate`, { reason, version: "", overlapSeconds: "3600" });
    const second = secretIn(rotated.text);
    expect([await statusOfToken(id, first), await statusOfToken(id, second)]).toEqual([200, 200]);
    const again = await admin.browser.post(`${page}/rotate`, { reason, version: "", overlapSeconds: "0" });
    const third = secretIn(again.text);
    const statuses = [first, second, third].map((secret) => statusOfToken(id, secret));
    expect(await Promise.all(statuses)).toEqual([401, 401, 200]);

    const { publicKey } = await generateKeyPair("Ed25519", { extractable: true });
    const publicJwk = JSON.stringify({ ...(await exportJWK(publicKey)), kid: "ci" });
    const added = await admin.browser.post(`${page}/add-key`, { reason, version: "", publicKey: publicJwk });
    expect(added.location).toBe(`${page}?done`);
    const shown = await admin.browser.get(page);
    expect(shown.words).toContain("Key ci, Ed25519");
    const credentials = [...shown.text.matchAll(/remove\?credential=([0-9a-f-]{36})/g)].map(([, found = ""]) => found);
    expect(credentials).toHaveLength(2);
    for (const credential of credentials) {
      const at = `${page}/remove?credential=${credential}`;
      expect((await admin.browser.post(at, { reason, version: "", credential })).location).toBe(`${page}?done`);
      expect((await admin.browser.get(at)).status).toBe(404);
    }
    expect(await statusOfToken(id, third)).toBe(401);
  });

  test("refuse a private key, and never send it back", async () => {
    const { privateKey } = await generateKeyPair("ES256", { extractable: true });
    const jwk = await exportJWK(privateKey);
    const form = { ...filled(newName()), credential: "key", publicKey: JSON.stringify(jwk) };
    const refused = await admin.browser.post(`${pages}/new`, form);
    expect([refused.status, refused.words]).toEqual([400, expect.stringContaining("This is a private key")]);
    expect(refused.text).not.toContain(jwk.d);
    expect(refused.text).toContain(`value="${form.name}"`);
  });

  test.each([
    ["without a name", { name: " " }, "Enter a name"],
    ["without a scope", { scope_admin_books: undefined }, "Choose at least one scope"],
    ["with a workspace’s scope", { scope_admin_books: undefined, scope_use_ai_studio: "on" }, "at least one scope"],
    ["that has expired", { expiresOn: inDays(-1) }, "Choose a day from today"],
    ["for more than a year", { expiresOn: inDays(367) }, "Choose a day from today"],
    ["with a range that isn’t one", { allowedAddresses: "192.0.2.7/24" }, "isn’t an IP address or a network"],
    ["without a reason", { reason: "" }, "Enter a reason"],
  ])("are not created %s", async (_, more, fault) => {
    const fields = Object.entries({ ...filled(newName()), ...more }).filter(
      (field): field is [string, string] => field[1] !== undefined,
    );
    const refused = await admin.browser.post(`${pages}/new`, Object.fromEntries(fields));
    expect([refused.status, refused.words]).toEqual([400, expect.stringContaining(fault)]);
  });

  test("need a name that no other has", async () => {
    const name = newName();
    await admin.browser.post(`${pages}/new`, filled(name));
    expect((await admin.browser.post(`${pages}/new`, filled(name))).status).toBe(409);
  });

  test("are for administrators only", async () => {
    const browser = await enter(person);
    expect((await browser.get(pages)).status).toBe(403);
    expect((await browser.post(`${pages}/new`, filled(newName()))).status).toBe(403);
  });
});

describe("service accounts of a workspace", () => {
  const workspaceOf = async ({ id }: Person) =>
    (await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [id]))[0]?.id ?? "";

  test("are managed without JavaScript and without reasons, and only revoking has to be typed", async () => {
    const workspaceId = await workspaceOf(person);
    const name = newName();
    const tab = openPlainTab(base, await enter(person));
    await tab.open(`/workspaces/${workspaceId}/service-accounts`);
    expect(tab.words()).toContain("No service accounts yet");
    await tab.follow("New service account");
    tab.fill("Name", name);
    tab.check("See runs, usage and costs, and record invoices");
    tab.fill("Expires after", inDays(10));
    tab.fill("Credential", "secret");
    await tab.press("Create service account");
    expect(tab.heading()).toBe("Service account created");
    await tab.follow("I’ve copied it");
    expect(tab.heading()).toBe(name);
    await tab.follow("Disable");
    await tab.press("Disable");
    expect(tab.words()).toContain("Changes saved.");
    await tab.follow("Revoke");
    await tab.press("Revoke");
    expect(tab.alert()).toContain(`Type “${name}” to confirm`);
    tab.fill(`Type “${name}” to confirm`, name);
    await tab.press("Revoke");
    expect(tab.words()).toContain("This service account is revoked.");
    await tab.open(`/workspaces/${workspaceId}/activity`);
    expect(tab.words()).toContain(`revoked the service account “${name}”`);
  });

  test("belong to their workspace: another one and the console don’t show them", async () => {
    const [own, other] = [await workspaceOf(person), await workspaceOf(admin)];
    const browser = await enter(person);
    const form = { ...filled(newName()), scope_use_ai_studio: "on" };
    const id = idIn((await browser.post(`/workspaces/${own}/service-accounts/new`, form)).text);
    expect((await browser.get(`/workspaces/${own}/service-accounts/${id}`)).status).toBe(200);
    expect((await browser.get(`/workspaces/${other}/service-accounts`)).status).toBe(404);
    expect((await admin.browser.get(`/workspaces/${other}/service-accounts/${id}`)).status).toBe(404);
    expect((await admin.browser.get(`${pages}/${id}`)).status).toBe(404);
    expect((await admin.browser.post(`${pages}/${id}/revoke`, { reason, version: "" })).status).toBe(404);
  });

  test("get only scopes that the person has, even if a form sends others", async () => {
    const workspaceId = await workspaceOf(person);
    const browser = await enter(person);
    const forged = { ...filled(newName()), scopes: "admin:books", workspace: "", actor: admin.id };
    const refused = await browser.post(`/workspaces/${workspaceId}/service-accounts/new`, forged);
    expect([refused.status, refused.words]).toEqual([400, expect.stringContaining("Choose at least one scope")]);
  });
});
