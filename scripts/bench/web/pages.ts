import { createHash, randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { createClient } from "@supabase/supabase-js";
import type pg from "pg";
import { z } from "zod";
import { hashToBytea } from "../../../remix-app/apps/opaque-tokens.ts";
import { basicAuthorization } from "../../../remix-app/http/authorization.ts";
import { type Browser, openBrowser } from "../../../remix-app/testing/browser.ts";
import { loadRuns } from "../../load/load-runs.ts";
import { createLoadTenant } from "../../load/load-tenant.ts";
import type { keepSession as keep, expired as pastItsTime } from "../../test/keep-session.ts";
import type { Stack } from "../../test/stack.ts";
import type { Call } from "../gateway/call.ts";
import type { Plan } from "../options.ts";
import { type Readings, timeReads } from "./readings.ts";
import { busyMs, isRefresh, type TracedWeb, toIdentity } from "./traced-web.ts";

export type PageMeasurements = {
  /** The signed-in pages that were measured. An `id` stays the same when a page is renamed. */
  pages: { id: string; name: string; readings: Readings }[];
  session: Readings;
  switches: { identityCalls: number; dataCalls: number; tookMs: number; ownMs: number; navigations: number }[];
  refreshes: { requests: number; answered: number; calls: number };
  signInScriptBytes: number;
};

const password = "correct horse battery staple";
const expiredRequests = 20;
const switches = 6;
/** How many runs the studio's overview shows, and over how many days. */
const shown = { runs: 2_000, days: 30 };
const withoutStorage = { auth: { persistSession: false, autoRefreshToken: false } };

/** Measures how long pages take and how many backend calls they make. */
export async function measurePages(options: {
  stack: Stack;
  /** Connected as the database's owner. */
  client: pg.Client;
  web: TracedWeb;
  readings: Plan["pages"];
  keepSession: typeof keep;
  expired: typeof pastItsTime;
}): Promise<PageMeasurements> {
  const { stack, client, web, readings, keepSession, expired } = options;
  const [ada, bob] = await Promise.all([createPerson(stack), createPerson(stack)]);
  const demo = stack.users.find(({ role }) => role === "user");
  if (!demo) throw new Error("The stack has no demo user.");
  const tenant = await createLoadTenant(client);
  await loadRuns(client, { tenant, ...shown });
  const cookie = await keepSession(await signIn(stack, demo));
  const read = (path: string) => timeReads(web, { path, cookie, ...readings });
  return {
    pages: [
      { id: "page", name: "workspaces", readings: await read("/workspaces") },
      { id: "security-page", name: "security settings", readings: await read("/settings/security") },
      {
        id: "overview-page",
        name: "studio overview",
        readings: await read(`/workspaces/${tenant.workspaceId}/ai?range=${shown.days}d`),
      },
    ],
    session: await read("/api/v1/auth/session"),
    switches: await countSwitches(web, { cookie: await keepSession(await signIn(stack, ada)), ada, bob }),
    refreshes: await countRefreshes(web, await keepSession(await expired(await signIn(stack, ada)))),
    signInScriptBytes: await weighScripts(web.url, "/login"),
  };
}

type Person = { id: string; email: string; password: string };

async function createPerson({ supabase }: Stack): Promise<Person> {
  const { auth } = createClient(supabase.url, supabase.secretKey, withoutStorage);
  const email = `${crypto.randomUUID().slice(0, 8)}@bench.gatehouse.test`;
  const { data, error } = await auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  return { id: data.user.id, email, password };
}

/** Signs in directly at the identity backend. @returns the session, as a browser's cookie stores it */
export async function signIn({ supabase }: Stack, { email, password }: Pick<Person, "email" | "password">) {
  const { auth } = createClient(supabase.url, supabase.publishableKey, withoutStorage);
  const { data, error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  const { access_token, refresh_token, expires_in, expires_at = 0 } = data.session;
  return { access_token, refresh_token, expires_in, expires_at, token_type: "bearer" as const };
}

async function countSwitches(
  { url, takeCalls }: TracedWeb,
  { cookie, ada, bob }: { cookie: string; ada: Person; bob: Person },
): Promise<PageMeasurements["switches"]> {
  const browser = openBrowser(url, { cookie });
  await browser.post("/add-account", { email: bob.email, password: bob.password });
  const made: PageMeasurements["switches"] = [];
  for (let index = 0; index < switches; index += 1) {
    await takeCalls();
    const startedAt = performance.now();
    const { status } = await browser.postJson("/api/v1/auth/accounts/switch", { accountId: ada.id });
    const tookMs = performance.now() - startedAt;
    if (status !== 200) throw new Error(`A switch of accounts was answered with ${status}.`);
    const calls = await takeCalls();
    const identityCalls = calls.filter(toIdentity).length;
    const dataCalls = calls.length - identityCalls;
    // Switches back to the other account through the menu's form.
    const navigations = await navigationsOf(browser, { accountId: bob.id });
    made.push({ identityCalls, dataCalls, tookMs, ownMs: tookMs - busyMs(calls), navigations });
  }
  return made;
}

/**
 * Switches accounts through a page's form and follows redirects. @returns the number of redirects until a page loads
 */
async function navigationsOf(browser: Browser, form: { accountId: string }): Promise<number> {
  const most = 5;
  let answer = await browser.post("/accounts", form);
  let made = 0;
  for (; answer.location !== null && made < most; made += 1) answer = await browser.get(answer.location);
  if (answer.status !== 200) throw new Error(`A switch of accounts led to ${answer.status}.`);
  return made;
}

async function countRefreshes({ url, takeCalls }: TracedWeb, cookie: string): Promise<PageMeasurements["refreshes"]> {
  await takeCalls();
  const answers = await Promise.all(
    Array.from({ length: expiredRequests }, () => openBrowser(url, { cookie }).get("/api/v1/auth/session")),
  );
  const calls = await takeCalls();
  return {
    requests: expiredRequests,
    answered: answers.filter(({ status }) => status === 200).length,
    calls: calls.filter(isRefresh).length,
  };
}

/** Returns the gzipped size in bytes of all inline and external scripts of a page. */
async function weighScripts(url: string, page: string): Promise<number> {
  const html = await (await fetch(new URL(page, url))).text();
  const scripts = [...html.matchAll(/<script[^>]*>([^<]+)<\/script>/g)].map(([, text = ""]) => text);
  for (const [, source = ""] of html.matchAll(/<script[^>]* src="([^"]+)"/g)) {
    scripts.push(await (await fetch(new URL(source, url))).text());
  }
  return scripts.reduce((total, script) => total + gzipSync(script).byteLength, 0);
}

/** The requests that are compared with those of another commit. */
export const webCalls = [
  ...["discovery", "keys", "userinfo", "token", "introspection", "session"],
  ...["/login", "/workspaces", "runs", "security"],
] as const;

/** Returns the process and port of a stack's web server. */
export function webOf({ services }: Stack): Stack["services"][number] {
  const web = services.find(({ name }) => name === "web");
  if (!web) throw new Error("The stack runs without its web server.");
  return web;
}

/** A request, or what prepares it right before a load. */
export type PreparedCall = Call | (() => Promise<Call>);

/**
 * Signs the demo account in by the pages, since another commit may store sessions differently.
 * @param origin where the requests are sent, by default the stack's own web server
 * @returns the requests that the stack's commit can answer: release 0.1.0 has no OpenID Connect
 */
export async function createWebCalls(
  stack: Stack,
  origin = `http://127.0.0.1:${webOf(stack).port}`,
): Promise<Partial<Record<(typeof webCalls)[number], PreparedCall>>> {
  const { base, users, workspaceId } = stack;
  const { email = "", password: secret = "" } = users.find(({ role }) => role === "user") ?? {};
  const browser = openBrowser(base);
  await browser.post("/login", { email, password: secret });
  // The request after a sign-in replaces the device's secret.
  const { status } = await browser.get("/workspaces");
  if (status !== 200) throw new Error(`The page after a sign-in answered ${status}.`);
  const call = (path: string, { headers = {}, ...options }: Partial<Call>): Call => ({
    ...{ url: origin + path, method: "GET", headers, authorizations: [] },
    ...options,
  });
  const page = (path: string) => call(path, { headers: { accept: "text/html", cookie: browser.cookie() } });
  const pages = {
    session: page("/api/v1/auth/session"),
    "/login": call("/login", { headers: { accept: "text/html" } }),
    "/workspaces": page("/workspaces"),
    runs: page(`/workspaces/${workspaceId}/ai/runs`),
    security: page("/settings/security"),
  };
  const tables = await withDatabase(stack.supabase.dbUrl, (db) =>
    db.query("select from pg_catalog.pg_class where oid = to_regclass('private.openid_clients')"),
  );
  if (tables.rowCount === 0) return pages;
  const { token, refreshToken, client } = await signInToClient(stack, browser);
  return {
    discovery: call("/.well-known/openid-configuration", {}),
    keys: call("/.well-known/jwks.json", {}),
    userinfo: call("/oauth/userinfo", { authorizations: [`Bearer ${token}`] }),
    token: refreshes(refreshToken, (form) => call("/oauth/token", { method: "POST", authorizations: [client], form })),
    introspection: call("/oauth/introspect", { method: "POST", authorizations: [client], form: { token } }),
    ...pages,
  };
}

const tokenAnswer = z.object({ access_token: z.string(), refresh_token: z.string() });

/**
 * Returns what prepares a load of refreshes. A refresh token can be used again for 30 seconds, with the same result, so
 * each load gets the successor of the last one's.
 */
function refreshes(first: string, callWith: (form: Record<string, string>) => Call): () => Promise<Call> {
  let refreshToken = first;
  return async () => {
    const form = { grant_type: "refresh_token", refresh_token: refreshToken };
    const call = callWith(form);
    const response = await fetch(call.url, {
      method: "POST",
      headers: { authorization: call.authorizations[0] ?? "" },
      body: new URLSearchParams(form),
    });
    refreshToken = tokenAnswer.parse(await response.json()).refresh_token;
    return call;
  };
}

/** Registers an OpenID client and signs the browser's account in to it. @returns its tokens and Basic credentials */
async function signInToClient(
  { base, supabase }: Stack,
  browser: Browser,
): Promise<{ token: string; refreshToken: string; client: string }> {
  const name = `bench-${randomBytes(8).toString("hex")}`;
  const [secret, verifier] = [0, 1].map(() => randomBytes(32).toString("hex")) as [string, string];
  const callback = "https://client.example/callback";
  await withDatabase(supabase.dbUrl, (db) =>
    db.query(
      `with app as (
         insert into private.apps (name, display_name, kind, scopes) values ($1, 'Bench', 'openid', '{profile}')
         returning id
       ), client as (
         insert into private.openid_clients (app_id, is_public, redirect_uris) select id, false, array[$2] from app
       )
       insert into private.app_secrets (app_id, secret_hash) select id, $3::bytea from app`,
      [name, callback, hashToBytea(secret)],
    ),
  );
  const request = new URLSearchParams({
    client_id: name,
    redirect_uri: callback,
    response_type: "code",
    scope: "openid profile offline_access",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const consent = await browser.get(`/oauth/authorize?${request}`);
  const [, action = "", accountId = ""] =
    /action="([^"]*\/oauth\/authorize\/decision[^"]*)".*?name="accountId" value="([^"]+)"/s.exec(consent.text) ?? [];
  const { location, text } = await browser.post(action.replaceAll("&amp;", "&"), { accountId });
  const [, code = ""] = /[?;&]code=([\w-]+)/.exec(location ?? text) ?? [];
  const client = basicAuthorization({ name, secret });
  const response = await fetch(new URL("/oauth/token", base), {
    method: "POST",
    headers: { authorization: client },
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: callback,
      code_verifier: verifier,
    }),
  });
  if (!response.ok) throw new Error(`The token endpoint answered ${response.status}: ${await response.text()}`);
  const { access_token: token, refresh_token: refreshToken } = tokenAnswer.parse(await response.json());
  return { token, refreshToken, client };
}
