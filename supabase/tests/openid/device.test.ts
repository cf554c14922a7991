import { describe, expect } from "vitest";
import { admitted, anAttempt } from "../abuse/attempt-fixtures.ts";
import { createActor, type MfaState, mfaStates } from "../actors.ts";
import { newHash, openPools, setPolicy } from "../apps/fixtures.ts";
import {
  bindApproval,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  signIn,
  test,
} from "../database.ts";
import {
  ageRequest,
  begin,
  beginRequest,
  type DeviceRequest,
  decide,
  newUserCode,
  poll,
  registerClient,
  waitSincePoll,
} from "./device-fixtures.ts";

const grantOf = (db: Database, { deviceHash }: DeviceRequest) =>
  one<Record<string, unknown>>(db, {
    sql: `select (g.proof).session_id as session, (g.proof).factor_id as factor, (g.proof).primary_second::float8 as primary_second,
            (g.proof).generation::float8 as generation, g.scopes, (g.authentication).acr as acr,
            extract(epoch from g.ends_at - g.created_at)::float8 as seconds
          from private.openid_grants g
          join private.device_authorizations d on d.id = g.source_id
          where d.device_code_hash = $1`,
    values: [deviceHash],
  });

const read = async (db: Database, { userCode }: { userCode: string }, readerId: string | null = null) =>
  (
    await one<{ answer: Record<string, unknown> | null }>(db, {
      sql: "select private.read_device_authorization($1, $2) as answer",
      values: [userCode, readerId],
    })
  ).answer;

describe("a device's request", () => {
  test.for(["known", "wrong"])("find_device_authorization completes the attempt at a %s code", async (code, { db }) => {
    const { userCode } = await begin(db, { client: await registerClient(db) });
    const user = await createUser(db);
    const attemptId = await admitted(db, anAttempt({ action: "user_code", userId: user.id }));
    const found = await one(db, {
      sql: "select private.find_device_authorization($1, $2, $3) ->> 'userCode' as code",
      values: [code === "known" ? userCode : "BBBBBBBB", user.id, attemptId],
    });
    expect(found).toEqual({ code: code === "known" ? userCode : null });
    const again = "select private.complete_attempt($1, 'void') as completed";
    expect(await one(db, { sql: again, values: [attemptId] })).toEqual({ completed: false });
  });

  test("a device's request lasts 10 minutes, may be polled every 5 seconds, and records the user agent and address that it came from", async ({
    db,
  }) => {
    const client = await registerClient(db);
    const answer = await begin(db, { client, address: "203.0.113.7", place: "Porto, Portugal" });
    expect(answer).toEqual({
      userCode: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{8}$/),
      expiresInSeconds: 600,
      intervalSeconds: 5,
    });
    expect(await read(db, { userCode: String(answer.userCode) })).toMatchObject({
      state: "pending",
      app: { name: client.name, displayName: "Field CLI" },
      scopes: ["offline_access", "openid", "profile"],
      userAgent: "curl/8.0",
      address: "203.0.113.7",
      place: "Porto, Portugal",
    });
  });

  test("a device's request gets a second user code if the first is in use, and none if all are in use", async ({
    db,
  }) => {
    const client = await registerClient(db);
    const [taken, free] = [newUserCode(), newUserCode()];
    expect(await begin(db, { client, userCodes: [taken] })).toMatchObject({ userCode: taken });
    expect(await begin(db, { client, userCodes: [taken, free] })).toMatchObject({ userCode: free });
    expect(await begin(db, { client, userCodes: [taken, free] })).toEqual({ refused: "unavailable" });
  });

  test("a device's request drops scopes for which the client is not registered, and is refused if no scope remains", async ({
    db,
  }) => {
    const client = await registerClient(db, { scopes: [] });
    const { userCode } = await begin(db, { client, scopes: ["openid", "email", "ai:use", "unknown"] });
    expect(await read(db, { userCode: String(userCode) })).toMatchObject({ scopes: ["openid"] });
    expect(await begin(db, { client, scopes: ["email", "unknown"] })).toEqual({ refused: "scope" });
    expect(await begin(db, { client, scopes: [] })).toEqual({ refused: "scope" });
  });

  test("refuses a device's request from an unknown client, with a wrong secret, or from a client without the device grant", async ({
    db,
  }) => {
    const confidential = await registerClient(db, { isPublic: false });
    expect(await begin(db, { client: confidential })).toHaveProperty("userCode");
    for (const client of [
      { ...confidential, secretHash: newHash() },
      { ...confidential, secretHash: null as unknown as Buffer },
      { ...confidential, name: "no-such-client" },
    ]) {
      expect(await begin(db, { client })).toEqual({ refused: "unauthenticated" });
    }
    const without = await registerClient(db, { allowsDeviceGrant: false });
    expect(await begin(db, { client: without })).toEqual({ refused: "unauthorized_client" });
  });

  test("a device's request is refused after 60 requests from one address in 10 minutes", async ({ db }) => {
    const [client, address] = [await registerClient(db), "203.0.113.8"];
    for (let nth = 1; nth <= 60; nth += 1) {
      expect(await begin(db, { client, address })).toHaveProperty("userCode");
    }
    expect(await begin(db, { client, address })).toEqual({ refused: "limited", retryAfterSeconds: 10 });
    expect(await begin(db, { client, address: "203.0.113.9" })).toHaveProperty("userCode");
  });
});

describe("polling for a device's tokens", () => {
  test("polling answers authorization_pending, and after an approval returns the tokens only once", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    expect(await poll(db, request)).toEqual({ refused: "authorization_pending" });
    expect(await decide(db, { ...request, claims })).toBe("approved");
    await waitSincePoll(db, request, "5 seconds");
    expect(await poll(db, request)).toMatchObject({
      sub: claims.sub,
      clientId: request.client.name,
      scopes: ["offline_access", "openid", "profile"],
      acr: "aal1",
      amr: ["pwd"],
      refreshable: true,
    });
    await waitSincePoll(db, request, "5 seconds");
    expect(await poll(db, request)).toEqual({ refused: "token" });
  });

  test.for([
    ["4.999999 seconds", "slow_down"],
    ["5 seconds", "authorization_pending"],
  ] as const)("a poll %s after the previous poll gets %s", async ([interval, refused], { db }) => {
    const request = await beginRequest(db);
    await poll(db, request);
    await waitSincePoll(db, request, interval);
    expect(await poll(db, request)).toEqual({ refused });
  });

  test("a device must wait 5 seconds longer after each slow_down, up to a minute", async ({ db }) => {
    const request = await beginRequest(db);
    await poll(db, request);
    for (let interval = 5; interval <= 75; interval += 5) {
      const seconds = Math.min(60, interval);
      await waitSincePoll(db, request, `${seconds - 0.000001} seconds`);
      expect(await poll(db, request)).toEqual({ refused: "slow_down" });
    }
    await waitSincePoll(db, request, "60 seconds");
    expect(await poll(db, request)).toEqual({ refused: "authorization_pending" });
  });

  test.for([
    ["9 minutes 59.999999 seconds", "authorization_pending", "approved"],
    ["10 minutes", "expired_token", "expired"],
  ] as const)(
    "%s after a device request began, polling answers %s and a decision answers %s",
    async ([age, refused, decision], { db }) => {
      const request = await beginRequest(db);
      await ageRequest(db, request, age);
      expect(await poll(db, request)).toEqual({ refused });
      expect(await decide(db, { ...request, claims: await createActor(db, {}) })).toBe(decision);
    },
  );

  test("polling after the request expired returns no tokens, even if it was approved in time", async ({ db }) => {
    const request = await beginRequest(db);
    await decide(db, { ...request, claims: await createActor(db, {}) });
    await ageRequest(db, request, "10 minutes");
    expect(await poll(db, request)).toEqual({ refused: "expired_token" });
  });

  test("polling after a denial answers access_denied, and a denial records no event", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    expect(await decide(db, { ...request, claims, approve: false })).toBe("denied");
    expect(await poll(db, request)).toEqual({ refused: "access_denied" });
    const events = await db.query(
      "select from public.security_events where user_id = $1 and kind = 'device_approved'",
      [claims.sub],
    );
    expect(events).toEqual([]);
    expect(await read(db, request)).toMatchObject({ state: "denied" });
  });

  test("polling as another client, or without the client's secret, finds no request", async ({ db }) => {
    const own = await registerClient(db, { isPublic: false });
    const request = await beginRequest(db, own);
    await decide(db, { ...request, claims: await createActor(db, {}) });
    for (const client of [await registerClient(db), await registerClient(db, { isPublic: false })]) {
      expect(await poll(db, { ...request, client })).toEqual({ refused: "token" });
    }
    const wrong = { ...own, secretHash: newHash() };
    expect(await poll(db, { ...request, client: wrong })).toEqual({ refused: "unauthenticated" });
    expect(await poll(db, { ...request, deviceHash: newHash() })).toEqual({ refused: "token" });
    expect(await poll(db, request)).toHaveProperty("sid");
  });

  test("polling finds no request once the client is disabled or has lost the device grant", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    await decide(db, { ...request, claims });
    await db.query("update private.openid_clients set allows_device_grant = false where app_id = $1", [
      request.client.id,
    ]);
    expect(await poll(db, request)).toEqual({ refused: "unauthorized_client" });
    const other = await beginRequest(db);
    await db.query("update private.apps set enabled = false where id = $1", [other.client.id]);
    expect(await poll(db, other)).toEqual({ refused: "unauthenticated" });
    expect(await decide(db, { ...other, claims })).toBe("not_found");
  });
});

describe("approving a device's request", () => {
  test.for(mfaStates.map(({ mfa, satisfied }) => [mfa, satisfied] as const))(
    "approving a device succeeds only if MFA is satisfied: MFA state %s, satisfied %s",
    async ([mfa, satisfied], { db }) => {
      const request = await beginRequest(db);
      const refusals: Partial<Record<MfaState, string>> = {
        "malformed policy": "unavailable",
        "session over": "unauthenticated",
      };
      const expected = satisfied ? "approved" : (refusals[mfa] ?? "mfa_required");
      expect(await decide(db, { ...request, claims: await createActor(db, { mfa }) })).toBe(expected);
      expect(await read(db, request)).toMatchObject({ state: satisfied ? "approved" : "pending" });
    },
  );

  test("a session that may only replace its password can't approve a device", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    await db.query("insert into private.password_replacements (session_id, user_id) values ($1, $2)", [
      claims.session_id,
      claims.sub,
    ]);
    expect(await decide(db, { ...request, claims })).toBe("unauthenticated");
  });

  test("approving a device records an event with the app, and sends one email to the owner", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    await decide(db, { ...request, claims });
    const [event, ...more] = await db.query<{ id: string }>(
      "select id, details from public.security_events where user_id = $1 and kind = 'device_approved'",
      [claims.sub],
    );
    expect([event, more]).toMatchObject([{ details: { app: "Field CLI" } }, []]);
    expect(await db.query("select from private.outgoing_mails where event_id = $1", [event?.id])).toHaveLength(1);
  });

  test("a device can be approved only once, and only the approver can see the approval", async ({ db }) => {
    const request = await beginRequest(db);
    const [claims, other] = [await createActor(db, {}), await createActor(db, {})];
    expect(await decide(db, { ...request, claims })).toBe("approved");
    for (const approve of [true, false]) {
      expect(await decide(db, { ...request, claims: other, approve })).toBe("conflict");
    }
    expect(await read(db, request, claims.sub)).toMatchObject({ state: "approved" });
    expect(await read(db, request, other.sub)).toMatchObject({ state: "expired" });
    expect(await poll(db, request)).toMatchObject({ sub: claims.sub });
  });

  test("approving a denied request, or an unknown code, does nothing", async ({ db }) => {
    const request = await beginRequest(db);
    const claims = await createActor(db, {});
    await decide(db, { ...request, claims, approve: false });
    expect(await decide(db, { ...request, claims })).toBe("conflict");
    expect(await decide(db, { userCode: newUserCode(), claims })).toBe("not_found");
  });

  test("concurrent approvals and denials decide a device's request only once, and the poll reports that decision", async () => {
    const { db, service, close } = openPools(20);
    try {
      const request = await beginRequest(service);
      const claims = await createActor(db, {});
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, nth) => decide(service, { ...request, claims, approve: nth % 2 === 0 })),
      );
      const [decided, ...more] = answers.filter((answer) => answer !== "conflict");
      expect(more).toEqual([]);
      const answer = await poll(service, request);
      if (decided === "approved") expect(answer).toMatchObject({ sub: claims.sub });
      else expect([decided, answer]).toEqual(["denied", { refused: "access_denied" }]);
    } finally {
      await close();
    }
  });
});

describe("a device's login", () => {
  test("a device's login records the second factor, the sign-in time and the policy but no session, and expires after 30 days", async ({
    db,
  }) => {
    const second = await currentSecond(db);
    const policy = { version: 1, required: true, boundary: second - 60, primaryBoundary: null, recovery: "none" };
    const user = await createUser(db, { appMetadata: { platform_required_mfa: { ...policy, generation: 3 } } });
    const factorId = await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id, factorId });
    const request = await beginRequest(db);
    await decide(db, { ...request, claims });
    expect(await poll(db, request)).toMatchObject({ acr: "aal2", amr: ["mfa", "otp", "pwd"], authTime: second - 1 });
    expect(await grantOf(db, request)).toMatchObject({
      session: null,
      factor: factorId,
      primary_second: second - 2,
      generation: 3,
      acr: "aal2",
      seconds: 30 * 24 * 3600,
    });
  });

  test("a device's login lasts no longer than the phone approval that provided its second factor", async ({ db }) => {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id });
    await bindApproval(db, { claims, factorId, secondFactorAt: (await currentSecond(db)) - 5 });
    const request = await beginRequest(db);
    await decide(db, { ...request, claims });
    expect(await poll(db, request)).toMatchObject({ acr: "aal2" });
    expect(Number((await grantOf(db, request)).seconds)).toBeLessThanOrEqual(3600);
  });

  const approved = async (db: Database) => {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id, factorId });
    const request = await beginRequest(db);
    await decide(db, { ...request, claims });
    return { user, factorId, claims, request };
  };

  test("a device's login begins even if the browser that approved it has signed out", async ({ db }) => {
    const { claims, request } = await approved(db);
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    expect(await poll(db, request)).toMatchObject({ sub: claims.sub });
  });

  test.for([
    // Events that end all of an account's logins delete the request as well.
    ["a ban", "token"],
    ["a closed account", "token"],
    ["a new boundary", "access_denied"],
    ["the deletion of the factor", "access_denied"],
  ] as const)("an approved device gets no tokens after %s", async ([change, refused], { db }) => {
    const { user, factorId, request } = await approved(db);
    switch (change) {
      case "a ban":
        await db.query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [user.id]);
        break;
      case "a closed account":
        await db.query("update auth.users set deleted_at = now() where id = $1", [user.id]);
        break;
      case "a new boundary": {
        const boundary = await currentSecond(db);
        await setPolicy(db, { userId: user.id, policy: { required: true, boundary, generation: 1 } });
        break;
      }
      case "the deletion of the factor":
        await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    }
    expect(await poll(db, request)).toEqual({ refused });
  });

  test("only one of 40 concurrent polls gets the tokens of a device's login", async () => {
    const { db, service, close } = openPools(20);
    try {
      const request = await beginRequest(service);
      await decide(service, { ...request, claims: await createActor(db, {}) });
      const answers = await Promise.all(Array.from({ length: 40 }, () => poll(service, request)));
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(1);
      expect(answers.filter(({ refused }) => refused === "token")).toHaveLength(39);
    } finally {
      await close();
    }
  });
});
