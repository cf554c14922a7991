import { afterAll, beforeAll, expect, test } from "vitest";
import { bearer, send } from "../scripts/test/apps.ts";
import { createConsoleAdmin } from "../scripts/test/console-admin.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
  tokenOf,
} from "../scripts/test/people.ts";
import { codeOf } from "./testing/authenticator-app.ts";

/** Maximum size of a page's HTML, however long the page's list is. */
const maxPageBytes = 100_000;
/** Returns SQL for a name of the maximum length. */
const long = (name: string) => `rpad('${name} ' || lpad(n::text, 4, '0') || ' ', 80, 'x')`;
const first = (more: number, rows: string) => `select ${rows} from generate_series(1, ${more}) as n`;

/** Prefix of the ids of rows that have to be deleted afterwards. */
const mark = `many-${crypto.randomUUID().slice(0, 8)}x`;

let person: Person;
let browser: SignedInBrowser;
let workspaceId: string;

/** Creates an account and a workspace with more of everything than a page shows. */
beforeAll(async () => {
  person = await createPerson();
  browser = await enter(person);
  await query(
    `insert into auth.sessions (id, user_id, created_at, updated_at, refreshed_at, aal, user_agent, ip)
     ${first(120, "gen_random_uuid(), $1, now() - interval '9 days', now(), (now() - n * interval '1 minute') at time zone 'UTC', 'aal1', 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'::inet")}`,
    [person.id],
  );
  await query(
    `insert into public.workspaces (name, plan_id, created_by) ${first(120, `${long("Space")}, 'free', $1`)}`,
    [person.id],
  );
  const [made] = await query<{ id: string }>(
    `insert into public.workspaces (name, plan_id, created_by) values ('Large', 'free', $1) returning id`,
    [person.id],
  );
  workspaceId = made?.id ?? "";
  await query(
    `insert into ai.runs (id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes,
       route, markup, status, usage_source, cost_usd, billed_credits, reserved_usd, reserved_credits, account_id, settled_at)
     select ai.run_id(now()), now(), id, 'key', 'interactive', 'chat', $2, 'm',
       jsonb_build_array(jsonb_build_object('position', 1, 'provider', $2::text)), 1, 1, 'succeeded', 'provider', 123456.789012345678, 1234567890.12345678, 0, 0, id, now()
     from public.workspaces where created_by = $1 and name like 'Space%'`,
    [person.id, mark],
  );
  await query(
    `insert into public.workspace_roles (workspace_id, name, permissions)
     ${first(90, "$1, rpad('Role ' || n || ' ', 40, 'x'), '{use_ai_studio,manage_ai_keys,manage_ai_policy}'::public.workspace_permission[]")}`,
    [workspaceId],
  );
  await query(
    `insert into auth.users (id, email, raw_user_meta_data, raw_app_meta_data, aud, role, created_at, updated_at)
     ${first(60, "gen_random_uuid(), 'list-' || n || '-' || $2 || '@example.com', '{}', '{}', 'authenticated', 'authenticated', now(), now()").replaceAll("$2", "$1")}`,
    [person.id],
  );
  await query(
    `update public.profiles p set display_name = ${long("Member").replaceAll("n::text", "u.n::text")}
     from (select id, row_number() over (order by email) as n from auth.users where email like 'list-%-' || $1 || '@example.com') u
     where p.id = u.id`,
    [person.id],
  );
  await query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select r.workspace_id, u.id, r.id from auth.users u, public.workspace_roles r
     where u.email like 'list-%-' || $2 || '@example.com' and r.workspace_id = $1 and r.name = 'member'`,
    [workspaceId, person.id],
  );
  await query(
    `with made as (
       insert into ai.models (id, kind, display_name, owned_by)
       ${first(130, "$1 || n, 'chat', rpad('Model ' || n || ' ', 80, 'x'), 'test'")} returning id
     ), routed as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model)
       select id, p, 'demo', 'upstream' from made, generate_series(1, 2) as p
     ), priced as (
       insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
       select id, 'demo', 1, 2 from made
     )
     insert into ai.model_grants (model_id, workspace_id) select id, $2 from made`,
    [mark, workspaceId],
  );
  await query(
    `with app as (insert into private.apps (name, display_name, kind) values ($1, 'Linked', 'external') returning id)
     insert into private.app_workspaces (app_id, workspace_id)
     select app.id, w.id from app, public.workspaces w where w.created_by = $2 and w.name like 'Space%'`,
    [mark, person.id],
  );
  await query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, created_at)
     select r.workspace_id, 'invited-' || n || '-' || repeat('x', 60) || '@example.com', r.id, sha256(convert_to(r.id::text || n, 'UTF8')), now() - n * interval '1 second'
     from generate_series(1, 60) as n, public.workspace_roles r
     where r.workspace_id = $1 and r.name = 'member'`,
    [workspaceId],
  );
});
afterAll(async () => {
  for (const table of ["model_grants", "model_prices", "model_routes"]) {
    await query(`delete from ai.${table} where model_id like $1 || '%'`, [mark]);
  }
  await query("delete from ai.models where id like $1 || '%'", [mark]);
  await query("delete from private.apps where name = $1", [mark]);
  await query("delete from ai.runs where created_at > now() - interval '1 hour' and request_id = $1", [mark]);
  await query("delete from auth.users where email like 'list-%-' || $1 || '@example.com'", [person.id]);
  await deletePerson(person);
});

/** Returns the HTML of each page of a list. */
async function walk(path: string, next: RegExp, by = browser): Promise<string[]> {
  const pages: string[] = [];
  for (let at: string | undefined = path; at !== undefined; ) {
    const { status, text } = await by.get(at);
    expect(status).toBe(200);
    expect(Buffer.byteLength(text)).toBeLessThan(maxPageBytes);
    pages.push(text);
    const href: string | undefined = next.exec(text)?.[1]?.replaceAll("&amp;", "&");
    at = href?.split("#")[0];
  }
  return pages;
}
const nextOf = (label: string) =>
  new RegExp(`<nav aria-label="${label}"(?:(?!</nav>).)*href="([^"]+)"[^>]*>Next page`, "s");

test("splits a workspace's members into pages under 100 KB, each member exactly once", async () => {
  const pages = await walk(`/workspaces/${workspaceId}/members`, nextOf("Pages of members"));
  const names = pages.flatMap((page) => [...page.matchAll(/<bdi>(Member \d{4})/g)].map(([, name]) => name));
  expect(pages).toHaveLength(5);
  expect(names).toHaveLength(60);
  expect(new Set(names).size).toBe(60);
  expect(names).toEqual(names.toSorted());
});

test("keeps a page of members under 100 KB with six roles to choose from", async () => {
  await query(
    "delete from public.workspace_roles where workspace_id = $1 and name like 'Role%' and name !~ '^Role [1-3] '",
    [workspaceId],
  );
  const [page] = await walk(`/workspaces/${workspaceId}/members?q=member`, /never/);
  expect(page).toContain("Save role of Member");
});

test("splits open invitations into pages independently of the members on the same page", async () => {
  const pages = await walk(`/workspaces/${workspaceId}/members?q=0007`, nextOf("Pages of invitations"));
  const emails = pages.flatMap((page) => [...page.matchAll(/break[^>]*>(invited-\d+)-|anywhere">(invited-\d+)-/g)]);
  expect(pages).toHaveLength(6);
  expect(new Set(emails.map(([, a, b]) => a ?? b)).size).toBe(60);
  for (const page of pages) expect(page).toContain("Member 0007");
});

test("splits a person's workspaces into pages, with the personal one first", async () => {
  const pages = await walk("/workspaces", nextOf("Pages of workspaces"));
  const names = pages.flatMap((page) => [...page.matchAll(/<bdi[^>]*>(Space \d{4})/g)].map(([, name]) => name));
  expect(new Set(names).size).toBe(120);
  expect(names).toEqual(names.toSorted());
});

test.each(["/", "/workspaces", "/settings/security/access"])("keeps the page %s under 100 KB", async (path) => {
  await walk(path, /never/);
});

test.each(["/roles", "/settings", "/activity"])("keeps a large workspace's page %s under 100 KB", async (path) => {
  await walk(`/workspaces/${workspaceId}${path}`, /never/);
});

test("splits a policy's models and a new key's models into pages under 100 KB", async () => {
  await query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
  for (const path of ["policy", "keys/new"]) {
    const ids = new Set<string>();
    for (let page = 0; page < 20; page++) {
      const intent = page === 0 ? "search" : "next";
      const turn = {
        modelTerm: mark,
        modelTermShown: mark,
        modelPage: String(Math.max(page - 1, 0)),
        readAt: "",
        intent,
      };
      const { status, text } = await browser.post(`/workspaces/${workspaceId}/ai/${path}`, turn);
      expect(status).toBe(200);
      expect(Buffer.byteLength(text)).toBeLessThan(maxPageBytes);
      for (const [, id] of text.matchAll(/<code[^>]*>([^<]+)<\/code>/g)) if (id?.startsWith(mark)) ids.add(id);
      if (!text.includes("More models")) break;
    }
    expect([path, ids.size]).toEqual([path, 130]);
  }
});

test("splits the workspace's models into pages under 100 KB", async () => {
  const pages = await walk(`/workspaces/${workspaceId}/ai/models?q=${mark}`, nextOf("Pages of models"));
  expect(new Set(pages.join("").match(new RegExp(`data-copies="${mark}\\d+"`, "g"))).size).toBe(130);
});

test.each(["?kind=chat", "?kind=speech"])("keeps the playground under 100 KB with many models (%s)", async (kind) => {
  await walk(`/workspaces/${workspaceId}/ai/playground${kind}`, /never/);
});

test("splits a workspace's service accounts into pages under 100 KB, each exactly once", async () => {
  await query(
    `insert into private.service_accounts (workspace_id, name, scopes, expires_at)
     ${first(120, `$1, ${long("Machine")}, '{use_ai_studio}', now() + interval '9 days'`)}`,
    [workspaceId],
  );
  const pages = await walk(`/workspaces/${workspaceId}/service-accounts`, nextOf("Pages of service accounts"));
  const names = pages.flatMap((page) => [...page.matchAll(/font-medium">\s*(Machine \d{4})/g)].map(([, name]) => name));
  expect(pages).toHaveLength(3);
  expect(new Set(names).size).toBe(120);
  expect(names).toEqual(names.toSorted());
});

test("splits the console's lists into pages under 100 KB", async () => {
  const admin = await createConsoleAdmin();
  const walkAsAdmin = (path: string, next: RegExp) => walk(path, next, admin.browser);
  try {
    const models = await walkAsAdmin(`/admin/models?q=${mark}`, nextOf("Pages of models"));
    expect(models.join("").match(new RegExp(`>${mark}\\d+</span>`, "g"))).toHaveLength(130);
    const routes = await walkAsAdmin("/admin/providers", nextOf("Pages of models"));
    expect(new Set(routes.join("").match(new RegExp(`model=${mark}\\d+`, "g"))).size).toBe(130);
    const linked = await walkAsAdmin(`/admin/apps/${mark}`, nextOf("Pages of workspaces"));
    expect(new Set(linked.join("").match(/Space \d{4}/g)).size).toBe(120);
    const spending = await walkAsAdmin("/admin/spending", nextOf("Pages of workspaces"));
    expect(new Set(spending.join("").match(/Space \d{4}/g)).size).toBe(120);
    const user = await walkAsAdmin(`/admin/users/${person.id}`, /never/);
    expect(user[0]).toContain("121");
    await query(
      `insert into private.account_invitations (email, invited_by, reason)
       ${first(60, "$1 || '-' || n || '-' || repeat('x', 60) || '@example.com', $2, repeat('Reason ', 70)")}`,
      [mark, admin.id],
    );
    const invitations = await walkAsAdmin("/admin/invitations", nextOf("Pages of invitations"));
    const revoked = invitations.join("").match(new RegExp(`Revoke the invitation of ${mark}-\\d+-`, "g"));
    expect(new Set(revoked).size).toBe(60);
  } finally {
    await query("delete from private.account_invitations where email like $1 || '-%'", [mark]);
    await deletePerson(admin);
  }
});

test("splits an account's sessions into pages under 100 KB", async () => {
  const pages = await walk("/settings/security", nextOf("Pages of sessions"));
  const ids = pages.flatMap((page) =>
    [...page.matchAll(/name="session" value="([0-9a-f-]{36})"/g)].map(([, id]) => id),
  );
  expect(new Set(ids).size).toBe(120);
  expect(pages[0]).toContain("This device");
});

test("splits a person's linked accounts, authenticator apps and connected apps into pages under 100 KB", async () => {
  const owner = await createPerson();
  const tag = `held-${crypto.randomUUID().slice(0, 8)}x`;
  try {
    const [app] = await insertAuthenticators(
      owner,
      Array.from({ length: 25 }, (_, index) => `Phone ${index + 1}.`),
    );
    if (!app) throw new Error("no authenticator");
    await query(
      `insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
       ${first(70, "gen_random_uuid()::text, $1, jsonb_build_object('email', 'linked-' || n || '-' || repeat('x', 60) || '@example.com'), 'google', now(), now(), now()")}`,
      [owner.id],
    );
    await query(
      `with made as (
         insert into private.apps (name, display_name, kind, scopes)
         ${first(45, `$2 || n, ${long("Holder")}, 'external', '{workspace:session,ai:use}'`)} returning id
       ), origins as (
         insert into private.app_origins (origin, app_id)
         select 'https://' || n || '.' || repeat('x', 150) || '.' || id || '.example', id from made, generate_series(1, 20) n
       ), spaces as (
         insert into public.workspaces (name, plan_id, created_by) ${first(30, `${long("Held")}, 'free', $1`)} returning id
       )
       insert into ai.app_tokens (family_id, app_id, user_id, workspace_id, scopes, proof, lookup, token_hash, expires_at,
         refresh_hash, refresh_expires_at)
       select gen_random_uuid(), m.id, $1, s.id, '{workspace:session,ai:use}',
         private.handoff_proof(jsonb_build_object('user', $1)), substr(md5(m.id::text || s.id), 1, 12),
         sha256(convert_to(m.id::text || s.id, 'UTF8')), now() + interval '30 minutes',
         sha256(convert_to(s.id::text || m.id, 'UTF8')), now() + interval '1 day'
       from made m, spaces s`,
      [owner.id, tag],
    );
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const by = await signedInLongAgo(owner, { secondsAgo: 0, prove });
    const namesOn = (pages: string[], pattern: RegExp) => new Set(pages.join("").match(pattern));
    const linked = await walk("/settings/security", nextOf("Pages of linked accounts"), by);
    expect([linked.length, namesOn(linked, /linked-\d+-/g).size]).toEqual([4, 70]);
    const phones = await walk("/settings/security", nextOf("Pages of authenticator apps"), by);
    expect([phones.length, namesOn(phones, /Remove Phone \d+\./g).size]).toEqual([3, 25]);
    const apps = await walk("/settings/security/apps", nextOf("Pages of apps"), by);
    expect([apps.length, namesOn(apps, new RegExp(`${tag}\\d+/disconnect`, "g")).size]).toEqual([5, 45]);
    expect(apps[0]).toContain("And 20 more workspaces.");

    const admin = await createConsoleAdmin();
    const registered = await walk(`/admin/apps?q=${tag}`, nextOf("Pages of apps"), admin.browser).finally(() =>
      deletePerson(admin),
    );
    expect([registered.length, namesOn(registered, new RegExp(`/admin/apps/${tag}\\d+`, "g")).size]).toEqual([1, 45]);
  } finally {
    await query("delete from private.apps where name like $1 || '%'", [tag]);
    await deletePerson(owner);
  }
});

interface Listed {
  status: number;
  body: { sessions?: { id: string }[]; workspaces?: { id: string }[]; nextCursor: string | null };
}

test.each([
  ["/api/v1/users/me/sessions", "sessions", 121],
  ["/api/v1/workspaces", "workspaces", 122],
] as const)("splits the API response of %s into pages", async (path, name, length) => {
  const headers = bearer(tokenOf(browser));
  const read = async (query: string) =>
    (await send(`${path}${query}`, { method: "GET", headers })) as unknown as Listed;
  const ids: string[] = [];
  for (let query: string | null = ""; query !== null; ) {
    const { body } = await read(query);
    expect(body[name]?.length).toBeLessThanOrEqual(50);
    ids.push(...(body[name] ?? []).map(({ id }) => id));
    query = body.nextCursor && `?${new URLSearchParams({ cursor: body.nextCursor })}`;
  }
  expect(ids).toHaveLength(length);
  expect(new Set(ids).size).toBe(length);
  const one = await read("?limit=1");
  const two = await read(`?limit=1&${new URLSearchParams({ cursor: one.body.nextCursor ?? "" })}`);
  expect([one.body[name]?.[0]?.id, two.body[name]?.[0]?.id]).toEqual(ids.slice(0, 2));
  expect((await read("?cursor=nonsense")).status).toBe(400);
});
