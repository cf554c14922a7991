import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { type Claims, createUser, type Database, one, signIn, test } from "../database.ts";

const hash = (secret: string) => createHash("sha256").update(secret).digest("hex");
const sealed = "s".repeat(40);

interface Held {
  id: string;
  secret: string;
}

async function call<Answer>(db: Database, name: string, args: unknown[]): Promise<Answer> {
  const places = args.map((_, index) => `$${index + 1}`).join(", ");
  const sql = `select private.${name}(${places}) as answer`;
  const values = args.map((arg) => (typeof arg === "object" && arg !== null ? JSON.stringify(arg) : arg));
  return db.asRole("service_role", async () => (await one<{ answer: Answer }>(db, { sql, values })).answer);
}

/** Signs a person in to a browser. Without `device`, uses a new browser. */
async function signInTo(db: Database, claims: Claims, device?: Held): Promise<{ status: string; device: Held }> {
  const held = device ?? { id: randomUUID(), secret: randomUUID() };
  const entry = {
    deviceId: held.id,
    userId: claims.sub,
    sessionId: claims.session_id,
    sealed,
    keyId: "k1",
    tag: randomBytes(16).toString("hex"),
  };
  if (!device) {
    const { status } = await call<{ status: string }>(db, "sign_in_account", [
      { ...entry, nextHash: hash(held.secret) },
    ]);
    return { status, device: held };
  }
  const added = randomUUID();
  const addition = { ...entry, secret: held.secret, secretHash: hash(added) };
  const { status } = await call<{ status: string }>(db, "add_account", [addition]);
  const taken = await one<{ secret: string }>(db, {
    sql: "select private.take_additions($1, $2, $3) ->> 'secret' as secret",
    values: [held.id, held.secret, [added]],
  });
  return { status, device: { ...held, secret: taken.secret } };
}

async function newcomer(db: Database): Promise<Claims> {
  return signIn(db, { userId: (await createUser(db)).id });
}

const stateOf = (db: Database, { id, secret }: Held) =>
  call<{ secret: string; arrived: boolean; active: { userId: string } | null; accounts: object[] } | null>(
    db,
    "device_state",
    [id, secret],
  );
/** Returns for each session whether it still exists. */
async function alive(db: Database, ...sessions: Claims[]): Promise<boolean[]> {
  const rows = await db.query<{ id: string }>("select id from auth.sessions where id = any ($1)", [
    sessions.map(({ session_id }) => session_id),
  ]);
  return sessions.map(({ session_id }) => rows.some(({ id }) => id === session_id));
}

const byId = (one: { id: string }, other: { id: string }) => (one.id < other.id ? -1 : 1);

test("lists every account of a browser as inactive after the active account signs out or is deleted", async ({
  db,
}) => {
  const [first, second, third] = [await newcomer(db), await newcomer(db), await newcomer(db)];
  const { device } = await signInTo(db, first);
  const two = (await signInTo(db, second, device)).device;
  const all = (await signInTo(db, third, two)).device;
  const idle = (...people: Claims[]) => ({
    active: null,
    // The accounts were added at the same time, so their order is undefined.
    accounts: people.map(({ sub }) => ({ id: sub, active: false, requiresReauth: false })).sort(byId),
  });
  await call(db, "sign_out_account", [all.id, all.secret, third.sub]);
  expect(await stateOf(db, all)).toMatchObject(idle(second, first));
  await db.query("update private.account_devices set active_user_id = $2, active_session_id = $3 where id = $1", [
    all.id,
    second.sub,
    second.session_id,
  ]);
  await db.query("delete from auth.users where id = $1", [second.sub]);
  expect(await stateOf(db, all)).toMatchObject(idle(first));
});

describe("a browser's secret", () => {
  test("stores a browser's secret only as a hash", async ({ db }) => {
    const { device } = await signInTo(db, await newcomer(db));
    const rows = await db.query("select d::text as text from private.account_devices d where id = $1", [device.id]);
    expect(JSON.stringify(rows)).not.toContain(device.secret);
  });

  test("a browser's secret gives access only to its own device, and not after 90 days", async ({ db }) => {
    const claims = await newcomer(db);
    const { device } = await signInTo(db, claims);
    expect(await stateOf(db, device)).toMatchObject({ secret: "current", active: { userId: claims.sub } });
    expect(await stateOf(db, { ...device, secret: "other" })).toBeNull();
    expect(await stateOf(db, { ...device, id: randomUUID() })).toBeNull();
    const aged =
      "update private.account_devices set last_seen_at = $2, expires_at = $2 + interval '90 days' where id = $1";
    await db.query(aged.replaceAll("$2", "now() - interval '89 days'"), [device.id]);
    expect(await stateOf(db, device)).not.toBeNull();
    await db.query(aged.replaceAll("$2", "now() - interval '90 days'"), [device.id]);
    expect(await stateOf(db, device)).toBeNull();
  });

  test("after an account switch, the old device secret is accepted until 30 seconds after the browser first uses the new secret", async ({
    db,
  }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    let { device } = await signInTo(db, first);
    device = (await signInTo(db, second, device)).device;
    const switchTo = async (target: Claims, { secret, next }: { secret: string; next: string }) => {
      const lease = randomUUID();
      const begun = await call<{ target: { tag: string } }>(db, "begin_account_switch", [
        device.id,
        secret,
        target.sub,
        lease,
      ]);
      return call<object>(db, "activate_account", [
        {
          deviceId: device.id,
          leaseId: lease,
          secret,
          nextHash: hash(next),
          userId: target.sub,
          sessionId: target.session_id,
          expectedTag: begun.target.tag,
          sealed,
          keyId: "k1",
          tag: randomBytes(16).toString("hex"),
        },
      ]);
    };
    const rotated = { status: "activated", rotated: true };
    expect(await switchTo(first, { secret: device.secret, next: "after" })).toEqual(rotated);
    // Requests in flight with the old secret get the same new secret; requests with the new secret don't rotate it
    // again.
    expect(await switchTo(second, { secret: device.secret, next: "after" })).toEqual(rotated);
    expect(await switchTo(first, { secret: "after", next: "never" })).toEqual({ status: "activated", rotated: false });
    const after = { ...device, secret: "after" };
    expect(await stateOf(db, device)).toMatchObject({ secret: "previous", active: { userId: first.sub } });
    expect(await stateOf(db, after)).toMatchObject({ secret: "current", arrived: false });
    await call(db, "confirm_device_secret", [device.id, "after"]);
    expect(await stateOf(db, after)).toMatchObject({ arrived: true });
    expect(await stateOf(db, device)).toMatchObject({ secret: "previous" });
    await db.query(
      "update private.account_devices set previous_until = previous_until - interval '30 seconds' where id = $1",
      [device.id],
    );
    expect(await stateOf(db, device)).toBeNull();
    expect(await switchTo(second, { secret: "after", next: "later" })).toEqual(rotated);
    expect(await stateOf(db, { ...device, secret: "later" })).toMatchObject({ secret: "current" });
  });
});

describe("the accounts of a browser", () => {
  test("a browser keeps at most ten accounts", async ({ db }) => {
    let { device } = await signInTo(db, await newcomer(db));
    for (let count = 2; count <= 10; count += 1) {
      const next = await signInTo(db, await newcomer(db), device);
      expect(next.status).toBe("kept");
      device = next.device;
    }
    const eleventh = await newcomer(db);
    expect((await signInTo(db, eleventh, device)).status).toBe("full");
    expect((await stateOf(db, device))?.accounts).toHaveLength(10);
  });

  test("a new sign-in replaces only the session of the same account in the browser", async ({ db }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    const elsewhere = await signIn(db, { userId: first.sub });
    let { device } = await signInTo(db, first);
    device = (await signInTo(db, second, device)).device;
    const again = await signIn(db, { userId: first.sub });
    await signInTo(db, again, device);
    expect(await alive(db, first, second, elsewhere, again)).toEqual([false, true, true, true]);
  });

  test("refuses to store a sign-in or sign-out page as an account's last visited page", async ({ db }) => {
    const { device } = await signInTo(db, await newcomer(db));
    const sql = "update private.account_vault_entries set last_route = $2 where device_id = $1";
    const rest = (route: string) => () => db.asRole("service_role", () => db.query(sql, [device.id, route]));
    for (const route of ["/login", "/login?x", "/add-account", "/Logout", "/auth/x", "/api/x", "//x", "x"]) {
      expect((await failureOf(rest(route))).code, route).toBe("23514");
    }
    for (const route of ["/", "/loginx", "/workspaces?x#y"]) await rest(route)();
  });

  test("a session that is stored late does not overwrite the session that replaced it", async ({ db }) => {
    const claims = await newcomer(db);
    const { device } = await signInTo(db, claims);
    const { active } = (await stateOf(db, device)) as unknown as { active: { tag: string } };
    const entry = { deviceId: device.id, userId: claims.sub, sessionId: claims.session_id, keyId: "k1" };
    const keep = (expectedTag: string, tag: string) =>
      call(db, "store_account_session", [{ ...entry, expectedTag, tag, sealed }]);
    expect(await keep(active.tag, "a".repeat(32))).toEqual({ kept: true });
    expect(await keep(active.tag, "b".repeat(32))).toMatchObject({ kept: false, current: { tag: "a".repeat(32) } });
    const late = { ...entry, sessionId: randomUUID(), expectedTag: "a".repeat(32), tag: "c".repeat(32), sealed };
    expect(await call(db, "store_account_session", [late])).toMatchObject({ kept: false });
    expect(await call(db, "discard_account_session", [device.id, claims.sub, active.tag, false])).toBe(false);
    expect(await alive(db, claims)).toEqual([true]);
    expect(await call(db, "discard_account_session", [device.id, claims.sub, "a".repeat(32), true])).toBe(true);
    expect(await alive(db, claims)).toEqual([false]);
    expect(await stateOf(db, device)).toMatchObject({ active: null, accounts: [{ requiresReauth: true }] });
  });
});

describe("why a session ended", () => {
  const foreign = randomUUID();
  test.for<[string, { kind: string; own?: boolean; secondsLater?: number }[], string | null]>([
    ["another device's revocation", [{ kind: "session_revoked" }], "session_revoked"],
    ["an administrator", [{ kind: "signed_out_by_admin" }], "signed_out_by_admin"],
    [
      "the first event that ended every other session",
      [{ kind: "password_changed" }, { kind: "signed_out_by_admin", secondsLater: 1 }],
      "password_changed",
    ],
    [
      "no revocation that was of another session",
      [
        { kind: "session_revoked" },
        { kind: "password_changed", secondsLater: 1 },
        { kind: "session_revoked", secondsLater: 2 },
      ],
      "password_changed",
    ],
    ["a sign-out by an app", [{ kind: "sign_out", own: true }], "sign_out"],
    ["nothing that another session's sign-out did", [{ kind: "sign_out" }], null],
    ["nothing that this session changed itself", [{ kind: "password_changed", own: true }], null],
    ["nothing from before its last use", [{ kind: "password_changed", secondsLater: -1 }], null],
  ])(
    "device_state names %s as the reason, to the browser with the device's secret",
    async ([, events, reason], { db }) => {
      const claims = await newcomer(db);
      const { device } = await signInTo(db, claims);
      const accountOf = async () => (await stateOf(db, device))?.accounts[0];
      for (const { kind, own, secondsLater = 0 } of events) {
        await db.query(
          `insert into public.security_events (user_id, kind, session_id, created_at)
         values ($1, $2, $3, now() + make_interval(secs => $4))`,
          [claims.sub, kind, own ? claims.session_id : foreign, secondsLater],
        );
      }
      expect(await accountOf()).toMatchObject({ requiresReauth: false, endReason: null });
      await call(db, "end_account_session", [claims.sub, claims.session_id]);
      expect(await accountOf()).toMatchObject({ requiresReauth: true, endReason: reason });
      expect(await stateOf(db, { ...device, secret: randomUUID() })).toBeNull();
    },
  );
});

describe("switching between accounts", () => {
  test("an account switch locks the device for ten seconds", async ({ db }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    let { device } = await signInTo(db, first);
    device = (await signInTo(db, second, device)).device;
    const begin = async (lease: string) =>
      (await call<{ status: string }>(db, "begin_account_switch", [device.id, device.secret, first.sub, lease])).status;
    const [mine, other] = [randomUUID(), randomUUID()];
    expect(await begin(mine)).toBe("begun");
    expect(await begin(other)).toBe("busy");
    expect(await begin(mine)).toBe("begun");
    await db.query("update private.account_devices set lease_expires_at = now() where id = $1", [device.id]);
    expect(await begin(other)).toBe("begun");
    const late = { deviceId: device.id, leaseId: mine, secret: device.secret, userId: first.sub };
    expect(await call(db, "activate_account", [late])).toEqual({ status: "lost" });
    await call(db, "end_account_switch", [device.id, mine]);
    expect(await begin(randomUUID())).toBe("busy");
    await call(db, "end_account_switch", [device.id, other]);
    expect(await begin(randomUUID())).toBe("begun");
  });

  test("an account switch that began before a sign-in does not deactivate the account that signed in", async ({
    db,
  }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    let { device } = await signInTo(db, first);
    device = (await signInTo(db, second, device)).device;
    const lease = randomUUID();
    const begun = await call<{ target: { tag: string } }>(db, "begin_account_switch", [
      device.id,
      device.secret,
      first.sub,
      lease,
    ]);
    const third = await newcomer(db);
    const fresh = (await signInTo(db, third, device)).device;
    const late = {
      deviceId: device.id,
      leaseId: lease,
      secret: device.secret,
      nextHash: hash("late"),
      userId: first.sub,
      sessionId: first.session_id,
      expectedTag: begun.target.tag,
    };
    expect(await call(db, "activate_account", [late])).toEqual({ status: "lost" });
    expect(await stateOf(db, fresh)).toMatchObject({ secret: "current", active: { userId: third.sub } });
  });
});

test("the sweep ends sessions that were idle for 30 days, and removes accounts from browsers and deletes devices after 90 days", async ({
  db,
}) => {
  const idle = async (days: string) => {
    const claims = await newcomer(db);
    const { device } = await signInTo(db, claims);
    await db.query(
      `update private.account_vault_entries set last_active_at = now() - $2::interval where device_id = $1`,
      [device.id, days],
    );
    return { claims, device };
  };
  const [used, ended, forgotten] = [await idle("29 days 23 hours"), await idle("30 days"), await idle("90 days")];
  const expired = await idle("1 day");
  await db.query(
    "update private.account_devices set last_seen_at = now() - interval '90 days', expires_at = now() where id = $1",
    [expired.device.id],
  );
  await call(db, "sweep_account_devices", []);
  expect(await alive(db, used.claims, ended.claims)).toEqual([true, false]);
  expect(await stateOf(db, used.device)).toMatchObject({ accounts: [{ requiresReauth: false }] });
  expect(await stateOf(db, ended.device)).toMatchObject({
    accounts: [{ requiresReauth: true, endReason: "idle" }],
  });
  expect(await stateOf(db, forgotten.device)).toMatchObject({ accounts: [] });
  expect(await db.query("select from private.account_devices where id = $1", [expired.device.id])).toEqual([]);
  await db.query(
    "update private.account_devices set last_seen_at = now() - interval '25 hours', expires_at = now() + interval '1 day' where id = $1",
    [forgotten.device.id],
  );
  await call(db, "sweep_account_devices", []);
  expect(await db.query("select from private.account_devices where id = $1", [forgotten.device.id])).toEqual([]);
});

test("device_session_state always describes the session, but describes the browser only if the secret is correct", async ({
  db,
}) => {
  const claims = await newcomer(db);
  const { device } = await signInTo(db, claims);
  const ask = (secret: string) =>
    db.asUser(
      claims,
      async () =>
        (await one(db, {
          sql: "select public.device_session_state($1, $2) as answer, public.session_state() as state",
          values: [device.id, secret],
        })) as { answer: Record<string, unknown>; state: object },
    );
  const known = await ask(device.secret);
  expect(known.answer).toEqual({ ...known.state, device: expect.objectContaining({ secret: "current" }) });
  const unknown = await ask("other");
  expect(unknown.answer).toEqual({ ...unknown.state, device: null });
});
