import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";

let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other, person] = await Promise.all([createConsoleAdmin(), createConsoleAdmin(), createPerson()]);
});
afterAll(() => Promise.all([admin, other, person].map(deletePerson)));

const reason = "Asked in ticket 7";
const personalWorkspace = async ({ id }: Person) =>
  (
    await query<{ id: string; name: string }>("select id, name from public.workspaces where personal_user_id = $1", [
      id,
    ])
  )[0] ?? {
    id: "",
    name: "",
  };
const auditOf = (target: string) =>
  query<{ action: string; actor_id: string; before: object | null; after: object }>(
    "select action, actor_id, before, after from private.admin_audit_log where target = $1 order by created_at",
    [target],
  );

describe("key approval in the console", () => {
  test("key approval needs a reason and is granted only once, and its withdrawal also needs the workspace's name", async () => {
    const { id, name } = await personalWorkspace(person);
    const at = (step: string) => `/admin/workspaces/${id}/${step}`;
    const filled = { reason };
    expect((await admin.browser.get(`/admin/workspaces?q=${person.email}`)).words).toContain(id);
    expect((await admin.browser.post(at("approve"), { ...filled, reason: "" })).status).toBe(400);
    const stranger = await enter(person);
    expect((await stranger.post(at("approve"), filled)).status).toBe(403);
    expect((await (await enter(admin)).post(at("approve"), filled)).location).toMatch(/^\/mfa\?/);
    expect(await auditOf(`workspace ${id}`)).toEqual([]);

    expect((await admin.browser.post(at("approve"), filled)).location).toBe(`/admin/workspaces?q=${id}&done=approve`);
    const late = await other.browser.post(at("approve"), filled);
    expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${admin.email} changed it on`)]);
    for (const confirmation of ["", "yes"]) {
      expect((await other.browser.post(at("withdraw"), { ...filled, confirmation })).status).toBe(400);
    }
    const withdrawn = await other.browser.post(at("withdraw"), { ...filled, confirmation: name });
    expect(withdrawn.location).toContain("done=withdraw");
    expect(await query("select from ai.key_approvals where workspace_id = $1", [id])).toEqual([]);
    const before = { approved: true, approvedBy: admin.id };
    expect(await auditOf(`workspace ${id}`)).toMatchObject([
      { action: "ai_keys.approve", actor_id: admin.id, before: { approved: false }, after: { approved: true } },
      { action: "ai_keys.withdraw", actor_id: other.id, before, after: { approved: false } },
    ]);
  });

  test("key approval for an admin's own personal workspace needs another admin", async () => {
    const { id } = await personalWorkspace(admin);
    const at = `/admin/workspaces/${id}/approve`;
    expect((await admin.browser.get(at)).words).toContain("You can’t approve or decline your own personal workspace");
    expect((await admin.browser.post(at, { reason })).status).toBe(403);
  });
});

describe("the registry of apps", () => {
  const name = `test-${crypto.randomUUID().slice(0, 8)}`;
  const base = `/admin/apps/${name}`;
  const app = { name, displayName: "Test app", kind: "external", origins: `https://${name}.example`, scopeAiUse: "on" };
  const filled = { ...app, reason };
  afterAll(() => query("delete from private.apps where name = $1", [name]));

  const versionOf = async () =>
    /name="version" value="([^"]*)"/.exec((await admin.browser.get(`${base}/edit`)).text)?.[1] ?? "";
  const change = async (step: string, more: Record<string, string> = {}) =>
    admin.browser.post(`${base}/${step}`, { reason, version: await versionOf(), ...more });
  const hashes = async () =>
    (
      await query<{ hash: string; ends: boolean }>(
        `select encode(s.secret_hash, 'hex') as hash, s.expires_at is not null as ends from private.app_secrets s
         join private.apps a on a.id = s.app_id where a.name = $1 order by s.created_at`,
        [name],
      )
    ).map(({ hash, ends }) => ({ hash, ends }));
  const secretOn = (text: string) => /select-all[^>]*>([\w-]{43})</.exec(text)?.[1] ?? "";
  const hashed = (secret: string) => createHash("sha256").update(secret).digest("hex");

  test.each([
    ["without a reason", { reason: "" }, 400],
    ["with a URL that is not an origin", { origins: "https://x.example/path" }, 400],
    ["as internal with a gateway scope", { kind: "internal" }, 400],
    ["with another app's origin", { origins: "https://taken.example" }, 409],
  ])("refuses to register an app %s", async (_, more, status) => {
    await query(
      `with a as (insert into private.apps (name, display_name, kind) values ('taken-app', 'Taken', 'internal')
         on conflict (name) do update set display_name = 'Taken' returning id)
       insert into private.app_origins (origin, app_id) select 'https://taken.example', id from a on conflict do nothing`,
      [],
    );
    expect((await admin.browser.post("/admin/apps/new", { ...filled, ...more })).status).toBe(status);
    expect(await query("select from private.apps where name = $1", [name])).toEqual([]);
    await query("delete from private.apps where name = 'taken-app'", []);
  });

  test("registers an app, shows its secret once, and audits each change with the state before and after", async () => {
    expect((await (await enter(person)).post("/admin/apps/new", filled)).status).toBe(403);
    const made = await admin.browser.post("/admin/apps/new", filled);
    expect(await hashes()).toEqual([{ hash: hashed(secretOn(made.text)), ends: false }]);
    expect((await admin.browser.get(base)).text).not.toContain(secretOn(made.text));

    const unconfirmed = await change("rotate", { overlapSeconds: "0" });
    expect([unconfirmed.status, unconfirmed.words]).toEqual([
      400,
      expect.stringContaining(`Type “${name}” to confirm`),
    ]);
    expect(unconfirmed.text).toContain(`value="${reason}"`);
    expect(unconfirmed.text).toMatch(/<option value="0" selected/);
    const rotated = await change("rotate", { overlapSeconds: "3600" });
    expect(await hashes()).toEqual([
      { hash: hashed(secretOn(made.text)), ends: true },
      { hash: hashed(secretOn(rotated.text)), ends: false },
    ]);

    const edited = { displayName: "Renamed", origins: `https://${name}.example\nhttps://two.${name}.example` };
    const narrowed = await change("edit", { ...edited, scopeTtsUse: "on" });
    expect([narrowed.status, narrowed.words]).toEqual([400, expect.stringContaining(`Type “${name}” to confirm`)]);
    expect(narrowed.text).toContain('value="Renamed"');
    const confirmation = name;
    expect((await change("edit", { ...edited, scopeTtsUse: "on", confirmation })).location).toBe(`${base}?done`);
    const { id: workspace } = await personalWorkspace(person);
    expect((await change("link", { workspace: crypto.randomUUID() })).status).toBe(400);
    expect((await change("link", { workspace })).status).toBe(303);
    expect((await change("unlink", { workspace })).status).toBe(400);
    expect((await change("unlink", { workspace, confirmation })).status).toBe(303);
    expect((await change("disable", { confirmation: "another" })).status).toBe(400);
    expect((await change("disable", { confirmation: name })).status).toBe(303);
    expect((await admin.browser.get(base)).words).toContain("This app is disabled");
    expect((await change("enable")).status).toBe(303);

    const log = await auditOf(`app ${name}`);
    expect(log.map(({ action }) => action)).toEqual([
      "app.register",
      "app.rotate_secret",
      "app.edit",
      "app.link_workspace",
      "app.unlink_workspace",
      "app.disable",
      "app.enable",
    ]);
    expect(log[2]).toMatchObject({
      before: { displayName: "Test app", scopes: ["ai:use"] },
      after: { displayName: "Renamed", scopes: ["tts:use"], origins: edited.origins.split("\n") },
    });
    expect(JSON.stringify(log)).not.toContain(hashed(secretOn(made.text)));
  });

  test("lets only one of two admins who saw the same version of an app change it", async () => {
    const version = await versionOf();
    const both = { reason, confirmation: name, version };
    const answers = await Promise.all([
      admin.browser.post(`${base}/disable`, both),
      other.browser.post(`${base}/disable`, both),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 409]);
    expect(answers.find(({ status }) => status === 409)?.words).toMatch(/@\S+ changed it on/);
  });
});

describe("the registry of OpenID clients", () => {
  const name = `client-${crypto.randomUUID().slice(0, 8)}`;
  const page = `/admin/openid-clients/${name}`;
  const filled = {
    name,
    type: "confidential",
    displayName: "Charts",
    redirectUris: "https://charts.example/callback",
    scopeProfile: "on",
    reason,
  };
  afterAll(() => query("delete from private.apps where name like $1", [`${name}%`]));
  const change = async (step: string, more: Record<string, string> = {}) => {
    const { text } = await admin.browser.get(`${page}/edit`);
    const version = /name="version" value="([^"]*)"/.exec(text)?.[1] ?? "";
    return admin.browser.post(`${page}/${step}`, { reason, version, ...more });
  };

  test.each([
    ["without a reason", { reason: "" }],
    ["with a wildcard", { redirectUris: "https://*.example/callback" }],
    ["with neither a redirect URI nor the device grant", { redirectUris: "" }],
    ["that is confidential but has a private-use scheme", { redirectUris: "com.example.app:/" }],
    ["with an http logout URL", { logoutUrl: "http://charts.example/out" }],
    ["named like the platform", { displayName: "Gаte house" }],
    ["that is public and without PKCE", { type: "public", requiresPkce: "no" }],
    ["with an unknown workspace for groups", { groupsWorkspaceId: crypto.randomUUID() }],
  ])("refuses to register an OpenID client %s", async (_, more) => {
    expect((await admin.browser.post("/admin/openid-clients/new", { ...filled, ...more })).status).toBe(400);
    expect(await query("select from private.apps where name = $1", [name])).toEqual([]);
  });

  test("registers an OpenID client, shows its secret once, and changes it", async () => {
    expect((await (await enter(person)).post("/admin/openid-clients/new", filled)).status).toBe(403);
    const made = await admin.browser.post("/admin/openid-clients/new", filled);
    const secret = /select-all[^>]*>([\w-]{43})</.exec(made.text)?.[1] ?? "";
    expect(secret).not.toBe("");
    const shown = await admin.browser.get(page);
    expect(shown.text).not.toContain(secret);
    expect(shown.words).toContain("/.well-known/openid-configuration");
    expect((await admin.browser.get(`/admin/apps?q=${name}`)).text).toContain(page);
    expect((await admin.browser.get(`/admin/apps/${name}`)).status).toBe(404);

    expect(shown.words).toContain("PKCE Required");
    const edited = {
      ...{ displayName: "Graphs", redirectUris: "https://graphs.example/", allowsDeviceGrant: "on" },
      ...{ requiresPkce: "no", claimsInIdToken: "on", groupsWorkspaceId: readStack().workspaceId },
    };
    const last = { ...edited, logoutUrl: "https://graphs.example/out" };
    expect((await change("edit", last)).status).toBe(400);
    expect((await change("edit", { ...last, confirmation: name })).location).toBe(`${page}?done`);
    expect((await change("rotate", { overlapSeconds: "0" })).status).toBe(400);
    expect((await change("rotate", { overlapSeconds: "0", confirmation: name })).status).toBe(200);
    expect((await change("disable")).status).toBe(400);
    expect((await change("disable", { confirmation: name })).status).toBe(303);
    expect((await admin.browser.get(page)).words).toContain("This client is disabled");
    expect((await change("enable")).status).toBe(303);
    const log = await auditOf(`app ${name}`);
    expect(log.map(({ action }) => action)).toEqual([
      ...["app.register", "app.edit", "app.rotate_secret", "app.disable", "app.enable"],
    ]);
    expect(log[1]).toMatchObject({
      before: { displayName: "Charts", allowsDeviceGrant: false, requiresPkce: true, claimsInIdToken: false },
      after: {
        ...{ displayName: "Graphs", allowsDeviceGrant: true, logoutUrl: "https://graphs.example/out", scopes: [] },
        ...{ requiresPkce: false, claimsInIdToken: true, groupsWorkspaceId: readStack().workspaceId },
      },
    });
  });

  test("accepts 20 addresses of 2,000 characters in each list of an OpenID client, and refuses a 21st address or a longer one", async () => {
    // The form's encoding turns each % into %25, so that the body is much longer than the addresses.
    const address = (at: number, length = 2_000) => {
      const prefix = `https://a${at}.example/?q=`;
      return prefix + "%25".repeat(length).slice(0, length - prefix.length);
    };
    const addresses = Array.from({ length: 20 }, (_, at) => address(at));
    const long = `${name}-l`;
    const client = { ...filled, name: long, redirectUris: addresses.join("\r\n") };
    const both = { ...client, postLogoutRedirectUris: client.redirectUris };
    const refuses = async (more: Record<string, string>, message: string) => {
      const { status, words } = await admin.browser.post("/admin/openid-clients/new", { ...both, ...more });
      expect([status, words]).toEqual([400, expect.stringContaining(message)]);
    };
    await refuses({ redirectUris: `${both.redirectUris}\r\n${address(20, 40)}` }, "At most 20 redirect URIs");
    await refuses({ redirectUris: address(0, 2_001) }, "A redirect URI has at most 2000 characters");
    expect((await admin.browser.post("/admin/openid-clients/new", both)).status).toBe(200);
    const { text } = await admin.browser.get(`/admin/openid-clients/${long}/edit`);
    const version = /name="version" value="([^"]*)"/.exec(text)?.[1] ?? "";
    const edited = await admin.browser.post(`/admin/openid-clients/${long}/edit`, { ...both, version });
    expect(edited.location).toBe(`/admin/openid-clients/${long}?done`);
    const sql = `select c.redirect_uris as uris, c.post_logout_redirect_uris as after
                 from private.openid_clients c join private.apps a on a.id = c.app_id where a.name = $1`;
    expect(await query(sql, [long])).toEqual([{ uris: addresses, after: addresses }]);
  });

  test("gives a public OpenID client no secret, and offers no rotation", async () => {
    const client = { ...filled, name: `${name}-p`, type: "public" };
    const made = await admin.browser.post("/admin/openid-clients/new", client);
    expect(made.location).toBe(`${page}-p?done`);
    expect((await admin.browser.get(`${page}-p`)).words).not.toContain("Rotate secret");
    expect((await admin.browser.get(`${page}-p/rotate`)).status).toBe(404);
  });
});
