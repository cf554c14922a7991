import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import {
  asApp,
  createApp,
  createPerson,
  type Held,
  handOver,
  type Person,
  paths,
  service,
  signOut,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { mailEnv } from "../../scripts/test/mail-env.ts";
import { deletePerson, query, requireMfa } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { sendLogoutNotices } from "./send-logout-notices.ts";

const { base } = readStack();
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout";
/** The published keys, as an app reads them. */
const keySet = createRemoteJWKSet(new URL("/.well-known/jwks.json", base));
const soon = { timeout: 5_000, interval: 50 };

interface Received {
  path: string;
  method: string | undefined;
  contentType: string | undefined;
  cookie: string | undefined;
  origin: string | undefined;
  body: URLSearchParams;
}

/** The requests that the app under test received, and the statuses it answers with. The last status repeats. */
let received: Received[] = [];
let statuses: number[] = [200];
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { url = "", method, headers } = request;
  const body = new URLSearchParams(Buffer.concat(chunks).toString());
  received.push({
    path: url,
    method,
    contentType: headers["content-type"],
    cookie: headers.cookie,
    origin: headers.origin,
    body,
  });
  const status = (statuses.length > 1 ? statuses.shift() : statuses[0]) ?? 200;
  response.writeHead(status, status === 302 ? { location: "/elsewhere" } : {}).end("ignored");
});

let app: TestApp;
let person: Person;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  app = await createApp({ scopes: ["profile"] });
  const { port } = server.address() as AddressInfo;
  await query("update private.apps set backchannel_logout_uri = $2 where id = $1", [
    app.id,
    `http://127.0.0.1:${port}/logout?tenant=a`,
  ]);
});
beforeEach(async () => {
  [received, statuses] = [[], [200]];
  person = await createPerson();
  return async () => {
    await deletePerson(person);
    await query("delete from private.logout_notices where user_id = $1", [person.id]);
  };
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

/**
 * Returns the logout tokens that the app received for a person, each verified as section 2.6 of Back-Channel Logout 1.0
 * requires.
 */
async function logoutsOf({ id }: Person) {
  const tokens = received.map(({ body }) => body.get("logout_token") ?? "");
  const verified = await Promise.all(
    tokens.map((token) =>
      jwtVerify(token, keySet, { issuer: base, audience: app.name, algorithms: ["RS256"], typ: "logout+jwt" }),
    ),
  );
  return verified.map(({ payload }) => payload).filter(({ sub }) => sub === id);
}
const sidsOf = async (of: Person) => (await logoutsOf(of)).map(({ sid }) => sid);
const waiting = ({ id }: Person) =>
  query<{ attempts: number }>("select attempts from private.logout_notices where user_id = $1", [id]);
const makeDue = ({ id }: Person) =>
  query("update private.logout_notices set next_attempt_at = now() where user_id = $1", [id]);

/** Adds the proof of a second factor to a login. */
async function proveByFactor({ sid }: Held): Promise<string> {
  const factorId = crypto.randomUUID();
  await query(
    `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
     values ($1, $2, 'app', 'totp', 'verified', now(), now(), 'secret')`,
    [factorId, person.id],
  );
  await query(
    `update private.app_sessions
     set proof = row((proof).user_id, (proof).session_id, $2, extract(epoch from now())::bigint - 1,
       (proof).primary_second, (proof).generation)::private.mfa_proof
     where handoff_id = $1`,
    [sid, factorId],
  );
  return factorId;
}

describe("delivery of logout tokens within 5 seconds", () => {
  test.for<[string, () => PromiseLike<unknown>]>([
    ["of a sign-out", () => signOut(person)],
    [
      "of being disconnected",
      () =>
        service.schema("private").rpc("disconnect_app", {
          subject_id: person.id,
          app_name: app.name,
          event: { kind: "app_disconnected" },
        }),
    ],
    ["of MFA becoming required", () => requireMfa(person)],
    ["of the account's deletion", () => deletePerson(person)],
  ])("an app gets a logout token within 5 seconds %s", async ([, end]) => {
    const held = await handOver(person, app);
    await end();
    await expect.poll(() => sidsOf(person), soon).toEqual([held.sid]);
    await expect.poll(() => waiting(person), soon).toEqual([]);
  });

  test("an app gets a logout token when the factor that proved the login is removed", async () => {
    const held = await handOver(person, app);
    const factorId = await proveByFactor(held);
    await query("delete from auth.mfa_factors where id = $1", [factorId]);
    await expect.poll(() => sidsOf(person), soon).toEqual([held.sid]);
  });

  test("an app that signs the person out itself gets no logout token", async () => {
    const held = await handOver(person, app);
    await asApp(app, paths.revoke, { token: held.appSession.token });
    const other = await handOver(person, app);
    await signOut(person);
    await expect.poll(() => sidsOf(person), soon).toEqual([other.sid]);
  });
});

describe("OpenID Connect Back-Channel Logout 1.0", () => {
  async function signedOut(): Promise<Received> {
    await handOver(person, app);
    await signOut(person);
    await expect.poll(() => received.length, soon).toBe(1);
    const [first] = received;
    if (!first) throw new Error("nothing was received");
    return first;
  }

  test("back-channel logout section 2.2: the logout URI is used as registered, with its query", async () => {
    expect((await signedOut()).path).toBe("/logout?tenant=a");
  });

  test("section 2.4: the logout token has iss, sub, aud, iat, exp, jti, events and sid, and no nonce", async () => {
    await signedOut();
    const [claims] = await logoutsOf(person);
    expect(claims).toEqual({
      iss: base,
      sub: person.id,
      aud: app.name,
      iat: expect.any(Number),
      exp: expect.any(Number),
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
      events: { [logoutEvent]: {} },
      sid: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(claims).not.toHaveProperty("nonce");
  });

  test("section 2.4: the logout token has the type logout+jwt, so that it cannot pass for an ID token", async () => {
    const { body } = await signedOut();
    expect(decodeProtectedHeader(body.get("logout_token") ?? "")).toEqual({
      alg: "RS256",
      typ: "logout+jwt",
      kid: expect.any(String),
    });
  });

  test("a logout token expires two minutes after it was issued (Back-Channel Logout, section 2.4)", async () => {
    await signedOut();
    const [claims] = await logoutsOf(person);
    expect((claims?.exp ?? 0) - (claims?.iat ?? 0)).toBe(120);
  });

  test("back-channel logout section 2.4: each login's logout token has its own jti", async () => {
    await Promise.all([handOver(person, app), handOver(person, app)]);
    await signOut(person);
    await expect.poll(async () => (await logoutsOf(person)).length, soon).toBe(2);
    expect(new Set((await logoutsOf(person)).map(({ jti }) => jti)).size).toBe(2);
  });

  test("the logout request posts a form with only logout_token, and sends the app’s own origin and no cookies (Back-Channel Logout 1.0, section 2.5)", async () => {
    const { method, contentType, cookie, origin, body } = await signedOut();
    expect([method, contentType, cookie]).toEqual([
      "POST",
      expect.stringMatching(/^application\/x-www-form-urlencoded/),
      undefined,
    ]);
    // SvelteKit and Astro refuse forms from other origins.
    expect(origin).toBe(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect([...body.keys()]).toEqual(["logout_token"]);
  });

  test.for([200, 204])(
    "an app's response with status %i counts as a successful logout (Back-Channel Logout 2.8)",
    async (status) => {
      statuses = [status];
      await signedOut();
      await expect.poll(() => waiting(person), soon).toEqual([]);
    },
  );

  test("a logout request that the app refuses with 400 is not retried (Back-Channel Logout 2.8)", async () => {
    statuses = [400];
    await signedOut();
    await expect.poll(() => waiting(person), soon).toEqual([]);
    expect(received).toHaveLength(1);
  });
});

describe("unacknowledged logout notices", () => {
  test("a logout notice is resent after 503, with the same jti", async () => {
    statuses = [503, 200];
    const held = await handOver(person, app);
    await signOut(person);
    // The second attempt comes five seconds after the first.
    await expect.poll(() => sidsOf(person), { timeout: 9_000, interval: 50 }).toEqual([held.sid, held.sid]);
    const [first, second] = await logoutsOf(person);
    expect(second?.jti).toBe(first?.jti);
    await expect.poll(() => waiting(person), soon).toEqual([]);
  }, 15_000);

  test("a logout notice does not follow a redirect", async () => {
    statuses = [302, 200];
    await handOver(person, app);
    await signOut(person);
    await expect.poll(() => received.length, soon).toBe(1);
    await expect.poll(async () => (await waiting(person))[0]?.attempts, soon).toBe(1);
    await makeDue(person);
    await expect.poll(() => waiting(person), soon).toEqual([]);
    expect(received.map(({ path }) => path)).toEqual(["/logout?tenant=a", "/logout?tenant=a"]);
  });

  test("a logout notice gets a last attempt after a day, and is then abandoned", async () => {
    statuses = [503];
    await handOver(person, app);
    await signOut(person);
    await expect.poll(() => received.length, soon).toBe(1);
    await query(
      `update private.logout_notices set created_at = now() - interval '1 day', next_attempt_at = now() where user_id = $1`,
      [person.id],
    );
    await expect.poll(() => waiting(person), soon).toEqual([]);
    expect(received).toHaveLength(2);
  });

  test("an unacknowledged logout notice does not delay the notices to another app", async () => {
    // This server accepts connections but never answers.
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    try {
      const other = await createApp({ scopes: ["profile"] });
      const { port } = silent.address() as AddressInfo;
      await query("update private.apps set backchannel_logout_uri = $2 where id = $1", [
        other.id,
        `http://127.0.0.1:${port}/`,
      ]);
      await query(
        `insert into private.logout_notices (app_id, user_id, sid, next_attempt_at)
         select $1, $2, gen_random_uuid(), now() - interval '1 minute' from generate_series(1, 30)`,
        [other.id, person.id],
      );
      const held = await handOver(person, app);
      await signOut(person);
      await expect.poll(() => sidsOf(person), { timeout: 8_000, interval: 50 }).toEqual([held.sid]);
    } finally {
      await query("delete from private.logout_notices where user_id = $1", [person.id]);
      silent.close();
      silent.closeAllConnections();
    }
  }, 15_000);

  test("an unacknowledged logout notice is logged with the app's name when it is first attempted and when it is abandoned", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    try {
      // Without a secret, no token can be signed.
      const task = sendLogoutNotices(mailEnv);
      const attempt = async (created: string) => {
        await query(
          `insert into private.logout_notices (app_id, user_id, sid, created_at, next_attempt_at)
           values ($1, $2, gen_random_uuid(), now() - $3::interval, now() - interval '1 year')`,
          [app.id, person.id, created],
        );
        await task.run(AbortSignal.timeout(5_000));
      };
      // The stack's own server may claim the notice first.
      await expect
        .poll(
          async () => {
            await attempt("0 seconds");
            await attempt("1 day");
            return logged.mock.calls.flat().filter((line) => String(line).includes(`app=${app.name}`));
          },
          { timeout: 10_000 },
        )
        .toEqual(
          expect.arrayContaining([
            expect.stringMatching(/was not delivered, and is sent again/),
            expect.stringMatching(/could not be delivered in 1 attempts, and is not sent again/),
          ]),
        );
    } finally {
      logged.mockRestore();
    }
  });
});
