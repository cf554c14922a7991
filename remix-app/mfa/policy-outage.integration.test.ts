import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { borrowFaultyWeb, type FaultyWeb } from "../../scripts/test/faulty-web.ts";
import { breakMfaPolicy, insertAuthenticators, query, requireMfa } from "../../scripts/test/people.ts";
import { answersJson, everyRoute, openRoutes } from "../../scripts/test/routes.ts";
import { visitorHeaders } from "../testing/visitor.ts";

/** Longer than the two seconds that one lookup may take, but shorter than two lookups. */
const boundMs = 3_500;
const atOnce = 40;
/**
 * How many requests are repeated at once after they took too long. Kept low, because on a busy machine many concurrent
 * requests delay each other.
 */
const fewAtOnce = 8;
let { backend, web } = {} as FaultyWeb;

beforeAll(async () => {
  ({ backend, web } = await borrowFaultyWeb());
});
beforeEach(() => {
  backend.state = "ok";
});

/** Open routes that read the session without requiring one. They are tested too. */
const asksSession = ["mfa", "mfa/recovery", "login", "api/v1/auth/session"];
const judged = everyRoute.filter(({ route }) => !(route in openRoutes) || asksSession.includes(route));
const judgedPaths = new Set(judged.map(({ path }) => path));

/** One route for each way of reading a session. */
const kindsOfRoutes = ["workspaces", "mfa", "api/v1/auth/session", "api/v1/users/me/sessions"];

/** Returns every route for a lookup that hangs, which takes each through its whole outage, and a few otherwise. */
const routesFor = (fault: string) =>
  fault === "hang" ? judged : judged.filter(({ route }) => kindsOfRoutes.includes(route));

async function answerOf(path: string, init: RequestInit) {
  const started = performance.now();
  const response = await web.fetch(path, init);
  const text = await response.text();
  return { path, status: response.status, text, headers: response.headers, ms: performance.now() - started };
}

interface Asked {
  path: string;
  headers: Record<string, string>;
}

async function answersOf(asked: readonly Asked[], together: number) {
  const answers: (Awaited<ReturnType<typeof answerOf>> & { asked: Asked })[] = [];
  for (let next = 0; next < asked.length; next += together) {
    const batch = asked.slice(next, next + together);
    const ask = async (each: Asked) => ({ ...(await answerOf(each.path, { headers: each.headers })), asked: each });
    answers.push(...(await Promise.all(batch.map(ask))));
  }
  return answers;
}

describe.each(["down", "hang", "malformed-policy", "nonsense"] as const)(
  "a policy lookup that fails with %s",
  (fault) => {
    beforeEach(async () => {
      if (fault === "malformed-policy") await breakMfaPolicy(await backend.newPerson());
      else backend.state = fault;
    });

    test("if the policy lookup fails, protected routes return a complete 503 in time, for cookies and bearer tokens", async () => {
      const session = await backend.session();
      const cookie = await backend.cookieOf(session);
      const pages = { ...visitorHeaders(), cookie, accept: "text/html" };
      const bearer = { ...visitorHeaders(), authorization: `Bearer ${session.access_token}` };
      const asked = routesFor(fault).flatMap(({ path }) => [
        { path, headers: pages },
        ...(answersJson(path) ? [{ path, headers: bearer }] : []),
      ]);
      const first = await answersOf(asked, atOnce);
      const late = first.filter(({ ms }) => ms >= boundMs).map(({ asked }) => asked);
      // Sends slow requests again, fewer at once, to measure their time. The content of the first answers is checked,
      // too.
      const again = await answersOf(late, fewAtOnce);
      const wrong = [...first, ...again].filter(({ status, text, headers }) => {
        if (status === 405) return false;
        // Accepts a redirect only to a path whose answer is also checked here.
        if (status === 302) return !judgedPaths.has(headers.get("location")?.split(/[?#]/)[0] ?? "");
        const whole = headers.get("content-type")?.startsWith("application/problem+json")
          ? JSON.parse(text).code === "AUTH_UNAVAILABLE"
          : text.match(/<h1/g)?.length === 1 &&
            text.includes("We can’t check your sign-in right now") &&
            text.includes("</main>");
        return !(status === 503 && whole && headers.getSetCookie().length === 0);
      });
      const slow = again.filter(({ ms }) => ms >= boundMs);
      expect([...wrong, ...slow].map(({ path, status, ms }) => ({ path, status, ms }))).toEqual([]);
      expect(first.length).toBeGreaterThan(fault === "hang" ? 60 : kindsOfRoutes.length);
    }, 120_000);

    test("a failed policy lookup leaves the recovery pages reachable and the auth cookies unchanged", async () => {
      const cookie = await backend.cookieOf(await backend.session());
      const headers = { ...visitorHeaders(), cookie, accept: "text/html" };
      const hash = crypto.randomUUID();
      await query(
        `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values (gen_random_uuid(), $1, 'recovery_token', $2, $3)
       on conflict (user_id, token_type) do update set token_hash = excluded.token_hash`,
        [backend.person.id, hash, backend.person.email],
      );
      for (const path of ["/auth/recovery", `/auth/confirm?token_hash=${hash}&type=recovery`]) {
        const { status, text, headers: answered } = await answerOf(path, { headers });
        const changed = answered.getSetCookie().filter((header) => /^(sb-|gh_device|gh_added_)/.test(header));
        expect([path, status, changed]).toEqual([path, 200, []]);
        expect(text).toMatch(/<form[^>]* method="post"/);
      }
    });
  },
);

test("answers 503 instead of redirecting to the sign-in page if a browser's accounts can't be looked up", async () => {
  const cookie = await backend.cookieOf(await backend.session());
  backend.state = "down";
  const { status, headers } = await answerOf("/accounts", {
    headers: { ...visitorHeaders(), cookie, accept: "text/html" },
  });
  expect([status, headers.getSetCookie()]).toEqual([503, []]);
});

describe("an account that requires MFA", () => {
  beforeEach(async () => {
    await requireMfa(await backend.newPerson());
  });

  test("a 403 and a page's redirect for missing MFA both set the rotated session cookie", async () => {
    for (const [path, status] of [
      ["/api/v1/users/me/sessions", 403],
      ["/workspaces", 302],
    ] as const) {
      const cookie = await backend.cookieOf(await backend.session({ expiresIn: 30 }));
      const { headers, ...answer } = await answerOf(path, { headers: { ...visitorHeaders(), cookie } });
      expect(answer.status).toBe(status);
      expect(headers.getSetCookie()).toEqual([
        expect.stringMatching(/^sb-127-auth-token=base64-[\w-]+;.*Max-Age=34560000/),
      ]);
    }
  });

  test("a weak bearer token and a strong cookie can't be combined in one request", async () => {
    await insertAuthenticators(backend.person, ["phone"]);
    const strong = await backend.cookieOf(await backend.session({ codeSecondsAgo: 1 }));
    const weak = await backend.accessToken();
    const headers = { ...visitorHeaders(), cookie: strong, authorization: `Bearer ${weak}` };
    const both = await answerOf("/api/v1/users/me/sessions", { headers });
    expect([both.status, JSON.parse(both.text).code]).toEqual([403, "MFA_REQUIRED"]);
    const bad = {
      ...visitorHeaders(),
      cookie: strong,
      authorization: `Bearer ${await backend.accessToken({ foreignKey: true })}`,
    };
    expect((await answerOf("/api/v1/users/me/sessions", { headers: bad })).status).toBe(401);
  });
});
