import { gzipSync } from "node:zlib";
import { createClient } from "@supabase/supabase-js";
import type pg from "pg";
import { type Browser, openBrowser } from "../../../remix-app/testing/browser.ts";
import { loadRuns } from "../../load/load-runs.ts";
import { createLoadTenant } from "../../load/load-tenant.ts";
import type { keepSession as keep, expired as pastItsTime } from "../../test/keep-session.ts";
import type { Stack } from "../../test/stack.ts";
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
