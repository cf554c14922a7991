import {
  supabaseAuthRoutes,
  supabaseAuthVersion,
} from "@gatehousehq/local-stack/services/identity/supabase-auth-routes";
import { decodeJwt } from "jose";
import { describe, expect, test } from "vitest";
import { deletePerson, query } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { accountCalls } from "./account-calls.ts";
import { adminCalls } from "./admin-calls.ts";
import { factorCalls } from "./factor-calls.ts";
import { idTokenCalls } from "./id-token-calls.ts";
import { identityCalls } from "./identity-calls.ts";
import type { DirectCall } from "./journey.ts";
import { renderMatrix } from "./matrix.ts";
import { call, enroll, phoneAgent, prove, raised, signedIn } from "./phone.ts";
import { sessionCalls } from "./session-calls.ts";
import { upkeepCalls } from "./upkeep-calls.ts";

const isSupabaseAuth = !!process.env.IDENTITY_BIN;
const directCalls = [...sessionCalls, ...accountCalls, ...factorCalls, ...identityCalls, ...idTokenCalls];
const allCalls = [...directCalls, ...adminCalls, ...upkeepCalls];
const routesOf = (wanted: (kind: (typeof supabaseAuthRoutes)[string]) => boolean) =>
  Object.entries(supabaseAuthRoutes).flatMap(([route, kind]) => (wanted(kind) ? [route] : []));

type Subject = Awaited<ReturnType<DirectCall["prepare"]>>["person"];

async function idOf(person: Subject): Promise<string | undefined> {
  if ("id" in person) return person.id;
  const [account] = await query<{ id: string }>("select id from auth.users where email = $1", [person.email]);
  return account?.id;
}

/** Returns an account's events, each with the number of emails about it, and the account's unconfirmed additions. */
async function recordOf(person: Subject) {
  const id = await idOf(person);
  const events = await query<{ id: string; kind: string; mails: number }>(
    `select e.id, e.kind, (select count(*)::integer from private.outgoing_mails m where m.event_id = e.id) as mails
     from public.security_events e where e.user_id = $1`,
    [id],
  );
  const additions = await query<{ kind: string }>(
    "select kind from private.unconfirmed_additions where user_id = $1 order by kind",
    [id],
  );
  return { events, additions: additions.map(({ kind }) => kind) };
}

test("the tested Supabase Auth server has the listed version", async () => {
  const { version } = (await call("GET /health")).body;
  const message = `The list of routes is of ${supabaseAuthVersion}, the server of ${version}: bring supabase-auth-routes.ts up to date, and the direct calls with it.`;
  expect(version, message).toBe(isSupabaseAuth ? supabaseAuthVersion : `${supabaseAuthVersion}-gatehouse`);
});

test("the direct calls cover exactly the routes that change accounts", () => {
  const tested = (calls: DirectCall[]) => [...new Set(calls.map(({ route }) => route))];
  expect(tested(directCalls).sort()).toEqual(routesOf((kind) => kind === "changes").sort());
  expect(routesOf((kind) => kind === "admin")).toEqual(expect.arrayContaining(tested(adminCalls)));
});

test("docs/direct-calls.md matches the tested calls", async () => {
  const document = renderMatrix({
    version: supabaseAuthVersion,
    routes: supabaseAuthRoutes,
    directCalls,
    adminCalls,
    upkeepCalls,
  });
  await expect(document).toMatchFileSnapshot("../../../docs/direct-calls.md");
});

test("a sign-in is recorded with its session, method, IP address and user agent", async () => {
  const { person, session } = await signedIn();
  const [event] = await query(
    "select kind, method, session_id, host(ip) as ip, user_agent from public.security_events where user_id = $1",
    [person.id],
  );
  const sessionId = decodeJwt(session.accessToken).session_id;
  expect(event).toEqual({
    kind: "sign_in",
    method: "password",
    session_id: sessionId,
    ip: "127.0.0.1",
    user_agent: phoneAgent,
  });
  await deletePerson(person);
});

// The hook's error object sets the status (internal/hooks/hookserrors of github.com/supabase/auth).
test("a second authenticator of an app is refused with 403, ends no session, and is announced as not allowed", async () => {
  const { person, session } = await raised();
  const additions = async (bearer: string) => {
    const headers = { authorization: `Bearer ${bearer}` };
    return (await fetch(`${readStack().base}/api/v1/users/me/additions`, { headers })).json();
  };
  const url = `${readStack().base}/settings/security`;
  const refused = { allowed: false, reason: "authenticator_exists", url };
  expect(await additions(session.accessToken)).toEqual({ authenticator: refused, passkey: refused, provider: refused });
  const answer = await prove(session.accessToken, await enroll(session.accessToken));
  expect([answer.status, JSON.stringify(answer.body)]).toEqual([403, expect.stringContaining("security page")]);
  expect((await call("GET /user", { bearer: session.accessToken })).status).toBe(200);
  const other = await signedIn();
  const allowed = { allowed: true, reason: null, url };
  expect(await additions(other.session.accessToken)).toEqual({
    authenticator: allowed,
    passkey: allowed,
    provider: allowed,
  });
  await Promise.all([deletePerson(person), deletePerson(other.person)]);
});

const server = isSupabaseAuth
  ? "Supabase Auth"
  : "the local identity server (a Supabase Auth where IDENTITY_BIN names one)";

describe(`Direct calls to ${server}`, () => {
  test.for(allCalls)(
    "a direct call is recorded and emailed as expected: $route, $title",
    async ({ prepare, notImplemented, ...expected }) => {
      const { person, act } = await prepare();
      const before = await recordOf(person);
      const answer = await act();
      const after = await recordOf(person);
      const known = new Set(before.events.map(({ id }) => id));
      const added = after.events.filter(({ id }) => !known.has(id));
      const isRefused = answer.status >= 400 || /[?&#]error=/.test(answer.location);

      const isMissing = notImplemented && !isSupabaseAuth;
      const { events = [], mails = {}, unconfirmed = [], refused = false } = isMissing ? { refused: true } : expected;
      expect(
        {
          refused: isRefused,
          events: added.map(({ kind }) => kind).sort(),
          mails: Object.fromEntries(added.filter((event) => event.mails > 0).map((event) => [event.kind, event.mails])),
          unconfirmed: after.additions.slice(before.additions.length),
        },
        `${answer.status} ${answer.body?.code ?? ""} ${answer.body?.message ?? ""} ${answer.location.slice(0, 200)}`,
      ).toEqual({ refused, events, mails, unconfirmed });
      const id = await idOf(person);
      if (id) await deletePerson({ id });
    },
  );
});

describe("User tokens and the publishable key", () => {
  const closed = routesOf((kind) => kind === "admin" || typeof kind === "object");

  test("every administrator route and every disabled route refuses a user's token and the publishable key", async () => {
    const { person, session } = await signedIn();
    const before = await recordOf(person);
    const open: string[] = [];
    for (const route of closed) {
      const body = /^(POST|PUT)/.test(route) ? { body: {} } : {};
      const { status } = await call(route.replaceAll(":id", person.id), { bearer: session.accessToken, ...body });
      if (status < 400) open.push(`${route} → ${status}`);
    }
    expect(open).toEqual([]);
    expect(await recordOf(person)).toEqual(before);
    await deletePerson(person);
  });
});
