import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { linkOfMail } from "../../e2e/mailbox.ts";
import { bearer, send, service, signInAgain } from "../../scripts/test/apps.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
  tokenOf,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { maskEmail } from "../session/mailed-link.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWeb } from "../testing/web-process.ts";
import { workspacePermissions } from "./permission.ts";

const { base, supabase } = readStack();

/** A person with a browser, and a token for the API. */
interface Visitor extends Person {
  browser: SignedInBrowser;
  token: string;
}
let [owner, manager, stranger] = [{} as Visitor, {} as Visitor, {} as Visitor];

async function createVisitor(): Promise<Visitor> {
  const person = await createPerson();
  return { ...person, browser: await enter(person), token: (await signInAgain(person)).accessToken };
}

beforeAll(async () => {
  [owner, manager, stranger] = await Promise.all([createVisitor(), createVisitor(), createVisitor()]);
});
afterAll(() => Promise.all([owner, manager, stranger].map(deletePerson)));

/** Creates a workspace that belongs to `owner`, with `manager` as a member who has the given permissions. */
async function found({ permissions = ["manage_members"] }: { permissions?: string[] } = {}) {
  const [workspace] = await query<{ id: string }>(
    "insert into public.workspaces (name, created_by) values ('Orbit', $1) returning id",
    [owner.id],
  );
  const id = workspace?.id ?? "";
  const [role] = await query<{ id: string }>(
    `insert into public.workspace_roles (workspace_id, name, permissions)
     values ($1, 'Managers', $2::public.workspace_permission[]) returning id`,
    [id, `{${permissions.join()}}`],
  );
  await query("insert into public.workspace_members (workspace_id, user_id, role_id) values ($1, $2, $3)", [
    id,
    manager.id,
    role?.id,
  ]);
  const roles = await query<{ id: string; name: string }>(
    "select id, name from public.workspace_roles where workspace_id = $1",
    [id],
  );
  return { id, roleId: (name: string) => roles.find((one) => one.name === name)?.id ?? "", path: `/workspaces/${id}` };
}

const stateOf = async (id: string) =>
  JSON.stringify(
    await query(
      `select w.name, w.deleted_at,
         (select jsonb_agg(m order by m.user_id) from public.workspace_members m where m.workspace_id = w.id) as members,
         (select jsonb_agg(r order by r.id) from public.workspace_roles r where r.workspace_id = w.id) as roles,
         (select count(*) from public.workspace_invitations i where i.workspace_id = w.id) as invitations
       from public.workspaces w where w.id = $1`,
      [id],
    ),
  );

test("escapes a workspace name in the page's data script so that it cannot end the script", async () => {
  const { id, path } = await found();
  const name = "</script><script>alert(1)</script><!-- &";
  await query("update public.workspaces set name = $2 where id = $1", [id, name]);
  const page = await owner.browser.get(`${path}/ai/playground`);
  expect(page.status).toBe(200);
  const { text: html } = page;
  expect(html.startsWith("<!DOCTYPE html><html ")).toBe(true);
  expect(html).not.toContain("<script>alert");
  const [, handed = ""] = /streamController\.enqueue\((".*?")\);<\/script>/s.exec(html) ?? [];
  expect(JSON.parse(handed)).toContain(JSON.stringify(name).slice(1, -1));
  expect(html).toMatch(/streamController\.close\(\);<\/script>(<!--\/?\$-->)*$/);
});

describe("access to another person's workspace", () => {
  test("returns the same 404 for another person's workspace on pages, forms and the API", async () => {
    const { id, path, roleId } = await found();
    const before = await stateOf(id);
    const pages = ["", "/members", "/roles", `/roles/${roleId("viewer")}`, "/settings", "/activity"];
    for (const page of pages) expect((await stranger.browser.get(`${path}${page}`)).status).toBe(404);
    const forms: [string, Record<string, string>][] = [
      ["/members", { intent: "invite", email: stranger.email, roleId: roleId("viewer") }],
      ["/members", { intent: "change_role", userId: manager.id, roleId: roleId("viewer") }],
      ["/members", { intent: "remove", userId: manager.id }],
      ["/roles", { intent: "create", name: "Mine" }],
      [`/roles/${roleId("viewer")}`, { intent: "delete" }],
      ["/settings", { intent: "rename", name: "Taken" }],
      ["/settings", { intent: "transfer", userId: stranger.id }],
      ["/settings", { intent: "delete", confirmation: "Orbit" }],
    ];
    for (const [page, fields] of forms) {
      expect((await stranger.browser.post(`${path}${page}`, fields)).status).toBe(404);
    }
    const calls = [
      ["GET", `/api/v1/workspaces/${id}`],
      ["PATCH", `/api/v1/workspaces/${id}`],
      ["DELETE", `/api/workspaces/${id}`],
    ] as const;
    for (const [method, address] of calls) {
      const body = method === "PATCH" ? { body: { name: "Taken" } } : {};
      const answer = await send(address, { method, ...body, headers: bearer(stranger.token) });
      const none = await send(address.replace(id, crypto.randomUUID()), {
        method,
        ...body,
        headers: bearer(stranger.token),
      });
      expect([answer.status, (answer.body as { code: string }).code]).toEqual([404, "NOT_FOUND"]);
      expect({ ...(answer.body as object), requestId: "" }).toEqual({ ...(none.body as object), requestId: "" });
    }
    expect(await stateOf(id)).toBe(before);
  });

  test("a request to one workspace can't change another workspace or use its roles", async () => {
    const [mine, theirs] = [await found(), await found()];
    const before = await stateOf(theirs.id);
    const invite = { intent: "invite", email: "someone@integration.gatehouse.test", roleId: theirs.roleId("viewer") };
    expect((await owner.browser.post(`${mine.path}/members`, invite)).status).toBe(403);
    const give = { intent: "change_role", userId: manager.id, roleId: theirs.roleId("viewer") };
    expect((await owner.browser.post(`${mine.path}/members`, give)).status).toBe(403);
    const foreign = `${mine.path}/roles/${theirs.roleId("viewer")}`;
    expect((await owner.browser.get(foreign)).status).toBe(404);
    expect((await owner.browser.post(foreign, { intent: "delete" })).status).toBe(404);
    const transfer = { intent: "transfer", userId: stranger.id };
    expect((await owner.browser.post(`${mine.path}/settings`, transfer)).words).toContain("no longer a member");
    expect(await stateOf(theirs.id)).toBe(before);
  });
});

describe("a role with fewer permissions", () => {
  test("a member cannot change members, roles or settings beyond the permissions of their own role", async () => {
    const { id, path, roleId } = await found();
    const before = await stateOf(id);
    const attempts: [string, Record<string, string>, number][] = [
      ["/members", { intent: "change_role", userId: manager.id, roleId: roleId("admin") }, 403],
      ["/members", { intent: "change_role", userId: manager.id, roleId: roleId("owner") }, 403],
      ["/members", { intent: "change_role", userId: owner.id, roleId: roleId("viewer") }, 404],
      ["/members", { intent: "remove", userId: owner.id }, 404],
      ["/members", { intent: "invite", email: stranger.email, roleId: roleId("admin") }, 403],
      ["/roles", { intent: "create", name: "Keys", manage_ai_keys: "on" }, 403],
      [`/roles/${roleId("Managers")}`, { intent: "save", name: "Managers", manage_ai_keys: "on" }, 403],
      [`/roles/${roleId("admin")}`, { intent: "save", name: "admin" }, 403],
      [`/roles/${roleId("owner")}`, { intent: "delete" }, 403],
      ["/settings", { intent: "rename", name: "Taken" }, 403],
      ["/settings", { intent: "transfer", userId: manager.id }, 403],
      ["/settings", { intent: "delete", confirmation: "Orbit" }, 403],
    ];
    for (const [page, fields, status] of attempts) {
      const answer = await manager.browser.post(`${path}${page}`, fields);
      expect([page, fields, answer.status]).toEqual([page, fields, status]);
    }
    expect((await manager.browser.get(`${path}/activity`)).status).toBe(403);
    expect(await stateOf(id)).toBe(before);
    const own = await manager.browser.post(`${path}/roles`, {
      intent: "create",
      name: "Helpers",
      manage_members: "on",
    });
    expect([own.status, own.location]).toEqual([303, `${path}/roles?done=created`]);
  });

  test("the Data API limits a role with fewer permissions as strictly as the pages do", async () => {
    const { id, roleId } = await found();
    const before = await stateOf(id);
    const table = (name: string) => `${supabase.url}/rest/v1/${name}`;
    const headers = {
      apikey: supabase.publishableKey,
      authorization: `Bearer ${manager.token}`,
      "content-type": "application/json",
    };
    const attempts: [string, string, object][] = [
      ["PATCH", `workspace_members?workspace_id=eq.${id}&user_id=eq.${manager.id}`, { role_id: roleId("owner") }],
      ["PATCH", `workspace_roles?id=eq.${roleId("Managers")}`, { permissions: workspacePermissions }],
      ["PATCH", `workspace_roles?id=eq.${roleId("Managers")}`, { is_owner: true }],
      ["PATCH", `workspaces?id=eq.${id}`, { name: "Taken" }],
      ["PATCH", `workspaces?id=eq.${id}`, { deleted_at: null }],
      ["POST", "workspace_members", { workspace_id: id, user_id: stranger.id, role_id: roleId("viewer") }],
      ["POST", "workspace_audit_log", { workspace_id: id, action: "member.left" }],
      ["POST", "rpc/transfer_workspace_ownership", { workspace_id: id, new_owner_id: manager.id }],
      ["POST", "rpc/delete_workspace", { workspace_id: id }],
    ];
    for (const [method, address, body] of attempts) {
      const answer = await fetch(table(address), { method, headers, body: JSON.stringify(body) });
      expect([address, answer.ok ? await answer.text() : ""]).toEqual([address, ""]);
    }
    expect(await stateOf(id)).toBe(before);
  });
});

describe("an irreversible action on a workspace", () => {
  test("an irreversible action requires a fresh sign-in if the last one is too old", async () => {
    const { id, path } = await found();
    const before = await stateOf(id);
    const stale = await signedInLongAgo(owner, { secondsAgo: 11 * 60 });
    const changes: Record<string, string>[] = [
      { intent: "transfer", userId: manager.id },
      { intent: "delete", confirmation: "Orbit" },
    ];
    for (const fields of changes) {
      const answer = await stale.post(`${path}/settings`, fields);
      expect([answer.status >= 300 && answer.status < 400, answer.location ?? ""]).toEqual([
        true,
        expect.stringMatching(/^\/(step-up|login)\?/),
      ]);
    }
    const headers = { cookie: stale.cookie(), "sec-fetch-site": "same-origin" };
    for (const credentials of [headers, bearer(tokenOf(stale))]) {
      const answer = await fetch(`${base}/api/workspaces/${id}`, { method: "DELETE", headers: credentials });
      expect([answer.status, await answer.json()]).toMatchObject([403, { code: "STEP_UP_REQUIRED" }]);
    }
    expect(await stateOf(id)).toBe(before);
  });

  test("asks to confirm a removal or a transfer of ownership only if the chosen person is another member", async () => {
    const { path } = await found();
    const asked = (address: string) => owner.browser.get(`${path}${address}`).then(({ words }) => words);
    expect(await asked(`/members?remove=${manager.id}`)).toContain("They’ll lose access immediately");
    expect(await asked(`/members?remove=${stranger.id}`)).not.toContain("lose access");
    expect(await asked(`/settings?heir=${manager.id}`)).toContain("Transfer Orbit to");
    expect(await asked(`/settings?heir=${stranger.id}`)).not.toContain("Transfer Orbit to");
    expect(await asked(`/settings?heir=${owner.id}`)).not.toContain("Transfer Orbit to");
  });

  test("the removal of a member lists their keys and invitations, revokes the chosen keys and withdraws the invitations", async () => {
    const { id, path, roleId } = await found({ permissions: [...workspacePermissions] });
    await query(
      `insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash)
       select k.id, k.id, $1, $2, k.name, substr(md5(k.id::text), 1, 12), sha256(k.id::text::bytea)
       from (select gen_random_uuid() as id, name from unnest(array['Server', 'Laptop']) as name) as k`,
      [id, manager.id],
    );
    await manager.browser.post(`${path}/members`, {
      intent: "invite",
      email: `guest-${id}@gatehouse.test`,
      roleId: roleId("viewer"),
    });
    const { words, text } = await owner.browser.get(`${path}/members?remove=${manager.id}`);
    expect(words).toContain("They created 2 API keys, which keep working without them.");
    expect(words).toContain(`guest-${id}@gatehouse.test`);
    const [keys] = [
      await query<{ id: string; name: string }>("select id, name from ai.keys where workspace_id = $1", [id]),
    ];
    const server = keys.find(({ name }) => name === "Server")?.id ?? "";
    expect(text).toContain(`value="${server}"`);

    const remove = { intent: "remove", userId: manager.id, revoke_0: server, revoke_1: crypto.randomUUID() };
    expect((await owner.browser.post(`${path}/members`, remove)).status).toBe(200);
    expect(
      await query(
        `select k.name, k.revoked_at is not null as revoked from ai.keys k where k.workspace_id = $1 order by k.name`,
        [id],
      ),
    ).toEqual([
      { name: "Laptop", revoked: false },
      { name: "Server", revoked: true },
    ]);
    expect(await query("select from public.workspace_invitations where workspace_id = $1", [id])).toEqual([]);
  });

  test("a refused removal revokes no key", async () => {
    const { id, path } = await found({ permissions: ["manage_members", "manage_ai_keys"] });
    const [key] = await query<{ id: string }>(
      `insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash)
       select k.id, k.id, $1, $2, 'Server', substr(md5(k.id::text), 1, 12), sha256(k.id::text::bytea)
       from (select gen_random_uuid() as id) as k returning id`,
      [id, owner.id],
    );
    const remove = { intent: "remove", userId: owner.id, revoke_0: key?.id ?? "" };
    const before = await stateOf(id);
    expect((await owner.browser.post(`${path}/members`, remove)).status).toBe(409);
    expect((await manager.browser.post(`${path}/members`, remove)).status).toBe(404);
    expect(await stateOf(id)).toBe(before);
    expect(await query("select revoked_at from ai.keys where id = $1", [key?.id])).toEqual([{ revoked_at: null }]);
  });

  test("a member who manages members but not keys can't revoke keys by removing their creator", async () => {
    const { id, path } = await found();
    const [role] = await query<{ id: string }>(
      "select id from public.workspace_roles where workspace_id = $1 and name = 'viewer'",
      [id],
    );
    await query("insert into public.workspace_members (workspace_id, user_id, role_id) values ($1, $2, $3)", [
      id,
      stranger.id,
      role?.id,
    ]);
    const [key] = await query<{ id: string }>(
      `insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash)
       select k.id, k.id, $1, $2, 'Server', substr(md5(k.id::text), 1, 12), sha256(k.id::text::bytea)
       from (select gen_random_uuid() as id) as k returning id`,
      [id, stranger.id],
    );
    const { words } = await manager.browser.get(`${path}/members?remove=${stranger.id}`);
    expect(words).toContain("Ask a member who manages API keys to revoke it.");
    const remove = { intent: "remove", userId: stranger.id, revoke_0: key?.id ?? "" };
    expect((await manager.browser.post(`${path}/members`, remove)).status).toBe(200);
    expect(await query("select revoked_at from ai.keys where id = $1", [key?.id])).toEqual([{ revoked_at: null }]);
  });

  test("refuses workspace changes from other sites, and answers 405 for any method but DELETE on /api/workspaces/:id", async () => {
    const { id, path } = await found();
    const before = await stateOf(id);
    const cookie = owner.browser.cookie();
    for (const headers of [
      { origin: "https://evil.example" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site" },
      {},
    ] as Record<string, string>[]) {
      const init = { method: "POST", redirect: "manual", headers: { cookie, ...headers } } as const;
      const body = new URLSearchParams({ intent: "remove", userId: manager.id });
      for (const page of ["members", "members.data"]) {
        expect((await fetch(`${base}${path}/${page}`, { ...init, body })).status).toBe(403);
      }
      const deletion = { method: "DELETE", headers: { cookie, ...headers } };
      expect((await fetch(`${base}/api/workspaces/${id}`, deletion)).status).toBe(403);
    }
    for (const method of ["GET", "HEAD", "POST", "PATCH", "PUT"]) {
      const answer = await fetch(`${base}/api/workspaces/${id}`, { method, headers: bearer(owner.token) });
      expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "DELETE"]);
    }
    expect(await stateOf(id)).toBe(before);
    expect((await send(`/api/workspaces/${id}`, { method: "DELETE", headers: bearer(owner.token) })).status).toBe(204);
    expect((await owner.browser.get(path)).status).toBe(404);
  });

  test("a workspace keeps exactly one owner despite concurrent transfers and departures", async () => {
    const { id } = await found();
    const client = { apikey: supabase.publishableKey, "content-type": "application/json" };
    const answers = await callAtOnce((nth) =>
      nth % 2 === 0
        ? fetch(`${supabase.url}/rest/v1/rpc/transfer_workspace_ownership`, {
            method: "POST",
            headers: { ...client, ...bearer(owner.token) },
            body: JSON.stringify({ workspace_id: id, new_owner_id: manager.id }),
          })
        : fetch(`${supabase.url}/rest/v1/workspace_members?workspace_id=eq.${id}&user_id=eq.${owner.id}`, {
            method: "DELETE",
            headers: { ...client, ...bearer(owner.token) },
          }),
    );
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const owners = await query(
      `select m.user_id from public.workspace_members m join public.workspace_roles r on r.id = m.role_id
       where m.workspace_id = $1 and r.is_owner`,
      [id],
    );
    expect(owners).toHaveLength(1);
  });
});

/** Returns the role that is preselected in the invitation form. */
function chosenRole(page: string): string | undefined {
  const [radio = ""] = /<input[^>]* id="invite-role-[^>]* checked=""[^>]*>/.exec(page) ?? [];
  return /value="([^"]+)"/.exec(radio)?.[1];
}

describe("invitations", () => {
  test("limits invitations to one email address to five per 15 minutes", async () => {
    const { path, roleId } = await found();
    const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
    const invite = () => owner.browser.post(`${path}/members`, { intent: "invite", email, roleId: roleId("viewer") });
    for (let sent = 0; sent < 5; sent += 1) {
      expect((await invite()).status).toBe(200);
      await query(
        "update public.workspace_invitations set created_at = created_at - interval '3 minutes' where email = $1",
        [email],
      );
    }
    const refused = await invite();
    expect([refused.status, refused.words]).toEqual([429, expect.stringContaining("Too many attempts. Try again in")]);
    const open = await service.from("workspace_invitations").select("email").eq("email", email);
    expect(open.data).toHaveLength(1);
    // The email is not the cause of the refusal, and the chosen role stays selected.
    expect(refused.text).not.toContain('id="invite-email-error"');
    expect(chosenRole(refused.text)).toBe(roleId("viewer"));
  });

  test("invites several people at once, and resends an invitation with a new link", async () => {
    // An inviter of its own, because the limits of inviters count all tests of this file.
    const inviter = await createVisitor();
    const [role] = await query<{ id: string; workspace_id: string }>(
      `select r.id, r.workspace_id from public.workspace_roles r join public.workspaces w on w.id = r.workspace_id
       where w.personal_user_id = $1 and r.name = 'viewer'`,
      [inviter.id],
    );
    const path = `/workspaces/${role?.workspace_id}`;
    const roleId = role?.id ?? "";
    const emails = ["a", "b"].map((name) => `${name}-${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`);
    const links = (text: string) =>
      [...text.matchAll(/data-copies="[^"]*(\/invitation\?token=[\w-]{43})"/g)].map(([, link]) => link);
    const sent = await inviter.browser.post(`${path}/members`, {
      intent: "invite",
      email: emails.join(", "),
      roleId,
    });
    expect([sent.status, sent.words]).toEqual([200, expect.stringContaining("We sent 2 invitations.")]);
    const first = links(sent.text);
    expect(new Set(first).size).toBe(2);
    const [row] = await query<{ id: string }>(
      "update public.workspace_invitations set created_at = created_at - interval '3 minutes' where email = $1 returning id",
      [emails[0]],
    );
    const resent = await inviter.browser.post(`${path}/members`, { intent: "resend", invitationId: row?.id ?? "" });
    expect([resent.status, resent.words]).toEqual([
      200,
      expect.stringContaining(`We sent an invitation to ${emails[0]}.`),
    ]);
    const [link = ""] = links(resent.text);
    expect(first).not.toContain(link);
    expect((await inviter.browser.get(first[0] ?? "")).status).toBe(404);
    expect((await inviter.browser.get(link)).status).toBe(200);
    // The links are in no later page.
    expect(links((await inviter.browser.get(`${path}/members`)).text)).toEqual([]);
    const soon = await inviter.browser.post(`${path}/members`, {
      intent: "invite",
      email: emails.join(" "),
      roleId,
    });
    expect([soon.status, soon.words]).toEqual([409, expect.stringContaining("We sent 0 of 2 invitations.")]);
    await deletePerson(inviter);
  });

  test("shows the links of invitations that were made before the database failed", async () => {
    const inviter = await createVisitor();
    const [role] = await query<{ id: string; workspace_id: string }>(
      `select r.id, r.workspace_id from public.workspace_roles r join public.workspaces w on w.id = r.workspace_id
       where w.personal_user_id = $1 and r.name = 'viewer'`,
      [inviter.id],
    );
    const emails = ["a", "b"].map((name) => `${name}-${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`);
    const other = new Client({ connectionString: supabase.dbUrl });
    await other.connect();
    try {
      // The second invitation waits for this one, until its statement times out.
      await other.query("begin");
      await other.query(
        `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
         values ($1, $2, $3, sha256($2::text::bytea))`,
        [role?.workspace_id, emails[1], role?.id],
      );
      const sent = await inviter.browser.post(`/workspaces/${role?.workspace_id}/members`, {
        intent: "invite",
        email: emails.join(" "),
        roleId: role?.id ?? "",
      });
      expect([sent.status, sent.words]).toEqual([503, expect.stringContaining("We sent 1 of 2 invitations.")]);
      expect(sent.text.match(/data-copies="[^"]*\/invitation\?token=[\w-]{43}"/g)).toHaveLength(1);
      expect(sent.text).toContain(`>${emails[1]}</textarea>`);
    } finally {
      await other.end();
    }
    await deletePerson(inviter);
  });

  test("the Finance role gives a budget of $0 to people who join with it", async () => {
    const { id, path } = await found();
    expect((await owner.browser.get(`${path}/roles`)).words).toContain("Add Finance role");
    const preset = { intent: "create", name: "Finance", use_ai_studio: "on", memberBudgetUsd: "0" };
    expect((await owner.browser.post(`${path}/roles`, preset)).status).toBe(303);
    const roles = await query(
      "select permissions::text, member_budget_usd from public.workspace_roles where workspace_id = $1 and name = 'Finance'",
      [id],
    );
    expect(roles).toEqual([{ permissions: "{use_ai_studio}", member_budget_usd: "0.000000000000" }]);
    const page = (await owner.browser.get(`${path}/roles`)).words;
    expect(page).toContain("Starts with a monthly budget of $0.00, so calls are refused until somebody raises it.");
    expect(page).not.toContain("Add Finance role");
  });

  test("limits an inviter to ten invitations in a row, on the page and through the Data API, across all workspaces", async () => {
    const inviter = await createVisitor();
    const own = await query<{ id: string }>(
      "insert into public.workspaces (name, created_by) values ('First', $1), ('Second', $1) returning id",
      [inviter.id],
    );
    try {
      const ids = own.map(({ id }) => id);
      const roles = await query<{ id: string; workspace_id: string }>(
        "select id, workspace_id from public.workspace_roles where name = 'viewer' and workspace_id = any ($1)",
        [ids],
      );
      const emails = Array.from({ length: 12 }, () => `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`);
      const roleOf = (nth: number) => roles[nth % roles.length] ?? { id: "", workspace_id: "" };
      const onPage = (nth: number) =>
        inviter.browser.post(`/workspaces/${roleOf(nth).workspace_id}/members`, {
          intent: "invite",
          email: emails[nth] ?? "",
          roleId: roleOf(nth).id,
        });
      const direct = (nth: number) =>
        fetch(`${supabase.url}/rest/v1/workspace_invitations`, {
          method: "POST",
          headers: { apikey: supabase.publishableKey, "content-type": "application/json", ...bearer(inviter.token) },
          body: JSON.stringify({
            workspace_id: roleOf(nth).workspace_id,
            email: emails[nth],
            role_id: roleOf(nth).id,
            token_hash: `\\x${crypto.randomUUID().replaceAll("-", "").repeat(2)}`,
          }),
        });
      for (let sent = 0; sent < 5; sent += 1) expect((await onPage(sent)).status).toBe(200);
      for (let sent = 5; sent < 10; sent += 1) expect((await direct(sent)).status).toBe(201);
      const refused = await onPage(10);
      expect([refused.status, refused.words]).toEqual([
        429,
        expect.stringMatching(/You’ve sent too many invitations\. You can send the next one in \d\d seconds\./),
      ]);
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(30);
      expect(refused.text).toContain(`>${emails[10]}</textarea>`);
      const answer = await direct(11);
      expect([answer.status, await answer.json()]).toMatchObject([429, { code: "PT429" }]);
    } finally {
      await deletePerson(inviter);
    }
  });

  test("refuses to invite a person again until the pending invitation is withdrawn", async () => {
    const { id, path, roleId } = await found();
    const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
    const invite = (name: string) =>
      owner.browser.post(`${path}/members`, { intent: "invite", email, roleId: roleId(name) });
    expect((await invite("viewer")).status).toBe(200);
    const open = () =>
      query<{ id: string; token_hash: Buffer }>(
        "select id, token_hash from public.workspace_invitations where workspace_id = $1 and email = $2",
        [id, email],
      );
    const [first] = await open();
    const again = await invite("admin");
    expect([again.status, again.words]).toEqual([409, expect.stringContaining("already a pending invitation")]);
    expect(await open()).toEqual([first]);
    const withdraw = () => owner.browser.post(`${path}/members`, { intent: "withdraw", invitationId: first?.id ?? "" });
    expect((await withdraw()).status).toBe(200);
    const late = await withdraw();
    expect([late.status, late.words]).toEqual([409, expect.stringContaining("already accepted or withdrawn")]);
    expect((await invite("admin")).status).toBe(200);
    expect(await open()).not.toEqual([first]);
  });

  test("an invitation shows only the masked email of the invited person if someone else opens the link", async () => {
    const { path, roleId } = await found();
    const invitee = await createVisitor();
    try {
      const invite = { intent: "invite", email: invitee.email, roleId: roleId("viewer") };
      expect((await owner.browser.post(`${path}/members`, invite)).status).toBe(200);
      const link = new URL(await linkOfMail(invitee.email, "You’re invited to a workspace on Gatehouse"));
      const shown = await stranger.browser.get(link.pathname + link.search);
      expect(shown.words).toContain(`is for ${maskEmail(invitee.email)} , but you’re signed in as ${stranger.email}`);
      expect(shown.text).not.toContain(invitee.email);
      expect((await invitee.browser.get(link.pathname + link.search)).words).toContain("Join workspace");
    } finally {
      await deletePerson(invitee);
    }
  });

  test("reports an invitation whose email could not be sent, with the request id", async () => {
    const { path, roleId } = await found();
    const { url, publishableKey, secretKey } = supabase;
    // The environment has no mail server.
    const env = { SUPABASE_PUBLISHABLE_KEY: publishableKey, SUPABASE_SECRET_KEY: secretKey, ...vaultSettings() };
    const web = await startWeb(url, { env });
    try {
      const browser = openBrowser(web.base, { cookie: owner.browser.cookie() });
      const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
      const refused = await browser.post(`${path}/members`, { intent: "invite", email, roleId: roleId("viewer") });
      expect([refused.status, refused.words]).toEqual([503, expect.stringContaining("couldn’t send the email")]);
      expect(refused.words).toContain(`Request ID ${refused.headers.get("x-request-id")}`);
      // The invitation exists, so its link can be copied.
      expect(refused.text).toContain(`>${email}</textarea>`);
      expect(refused.text).toMatch(/data-copies="[^"]*\/invitation\?token=[\w-]{43}"/);
    } finally {
      await web.stop();
    }
  });

  test("an invitation with an invalid email shows an error at the email field and keeps the chosen role", async () => {
    const { path, roleId } = await found();
    const invite = { intent: "invite", email: "not-an-email", roleId: roleId("admin") };
    const refused = await owner.browser.post(`${path}/members`, invite);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('id="invite-email-error"');
    expect(chosenRole(refused.text)).toBe(roleId("admin"));
  });
});
