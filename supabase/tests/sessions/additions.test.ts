import { createHash, randomBytes, randomUUID } from "node:crypto";
import { afterAll, describe, expect } from "vitest";
import { type Claims, createUser, type Database, signIn, test } from "../database.ts";
import { keptPool } from "../pools.ts";

const callers = 50;
const hash = (secret: string) => createHash("sha256").update(secret).digest("hex");

interface Held {
  id: string;
  secret: string;
}
interface Taken {
  status: string;
  secret?: string;
}
type Caller = Pick<Database, "query">;

async function call<Answer>(db: Caller, name: string, args: unknown[]): Promise<Answer> {
  const places = args.map((_, index) => `$${index + 1}`).join(", ");
  const values = args.map((arg) =>
    typeof arg === "object" && arg !== null && !Array.isArray(arg) ? JSON.stringify(arg) : arg,
  );
  const [row] = await db.query<{ answer: Answer }>(`select private.${name}(${places}) as answer`, values);
  return row?.answer as Answer;
}

const sealedFor = ({ sub, session_id }: Claims) => ({
  userId: sub,
  sessionId: session_id,
  sealed: "s".repeat(40),
  keyId: "k1",
  tag: randomBytes(16).toString("hex"),
});

const entryOf = ({ id, secret }: Held, claims: Claims) => ({ deviceId: id, secret, ...sealedFor(claims) });

async function makeDevice(db: Caller, claims: Claims): Promise<Held> {
  const device = { id: randomUUID(), secret: randomUUID() };
  await call(db, "sign_in_account", [{ deviceId: device.id, nextHash: hash(device.secret), ...sealedFor(claims) }]);
  return device;
}

async function add(
  db: Caller,
  { id, secret }: Held,
  { claims, added = randomUUID() as string }: { claims: Claims; added?: string },
) {
  const { status } = await call<{ status: string }>(db, "add_account", [
    { deviceId: id, secret, secretHash: hash(added), ...sealedFor(claims) },
  ]);
  return { status, added };
}

const take = (db: Caller, { id, secret }: Held, added: string[]) =>
  call<Taken>(db, "take_additions", [id, secret, added]);
const newcomer = async (db: Database) => signIn(db, { userId: (await createUser(db)).id });
const accountsOf = async (db: Caller, { id, secret }: Held) =>
  (await call<{ accounts: { id: string }[] } | null>(db, "device_state", [id, secret]))?.accounts.map((a) => a.id);

/**
 * Makes the device's previous secret and the device's additions expire earlier by `age`, as if the secret had been
 * replaced that much earlier.
 */
async function spentFor(db: Caller, { device, age }: { device: Held; age: string }): Promise<void> {
  const statements = [
    "update private.account_devices set previous_until = previous_until - $2::interval where id = $1",
    "update private.account_additions set expires_at = expires_at - $2::interval where device_id = $1",
  ];
  for (const statement of statements) await db.query(statement, [device.id, age]);
}

async function alive(db: Caller, ...sessions: Claims[]): Promise<boolean[]> {
  const ids = sessions.map(({ session_id }) => session_id);
  const rows = await db.query<{ id: string }>("select id from auth.sessions where id = any ($1)", [ids]);
  return ids.map((id) => rows.some((row) => row.id === id));
}

describe("an account being added to a browser", () => {
  test("an account joins a browser that presents the secret issued for that account, and a repeated request yields the same device secret", async ({
    db,
  }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    const device = await makeDevice(db, first);
    const { status, added } = await add(db, device, { claims: second });
    expect(status).toBe("kept");
    expect(await accountsOf(db, device)).toEqual([first.sub]);
    const taken = await take(db, device, ["x", added]);
    expect(taken).toEqual({ status: "current", secret: expect.stringMatching(/^[\w-]{43}$/) });
    expect(await accountsOf(db, { ...device, secret: taken.secret ?? "" })).toHaveLength(2);
    expect(await accountsOf(db, device)).toBeUndefined();
    for (const shown of [[added], [added, "x"]]) expect(await take(db, device, shown)).toEqual(taken);
    expect(await take(db, device, [])).toMatchObject({ status: "spent" });
    // The cookies still yield the new secret a month later, if nothing happened in between.
    await spentFor(db, { device, age: "29 days" });
    expect(await take(db, device, [added])).toEqual(taken);
    // The old cookies still yield the new device secret after the added account is deleted.
    await db.query("delete from auth.users where id = $1", [second.sub]);
    expect(await take(db, device, [added])).toEqual(taken);
    expect(await take(db, device, [])).toMatchObject({ status: "unknown" });
  });

  test("if an account is added to a browser twice, the browser keeps the added session whose secret it presents", async ({
    db,
  }) => {
    const first = await newcomer(db);
    const device = await makeDevice(db, first);
    const [lost, shown] = [await signIn(db, { userId: first.sub }), await signIn(db, { userId: first.sub })];
    await add(db, device, { claims: lost });
    const { added } = await add(db, device, { claims: shown });
    expect(await alive(db, first, lost, shown)).toEqual([true, true, true]);
    expect((await take(db, device, [added])).status).toBe("current");
    expect(await alive(db, first, lost, shown)).toEqual([false, false, true]);
  });

  test("an account is not added to a browser once the account's new session has ended", async ({ db }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    const device = await makeDevice(db, first);
    const { added } = await add(db, device, { claims: second });
    await db.query("delete from auth.sessions where id = $1", [second.session_id]);
    expect(await take(db, device, [added])).toEqual({ status: "current", secret: device.secret });
    expect(await accountsOf(db, device)).toEqual([first.sub]);
  });

  test.for([
    { age: "14 minutes 59 seconds", joins: true },
    { age: "15 minutes", joins: false },
  ])(
    "the session of an account ends if the account isn't added to the browser within 15 minutes: $age",
    async ({ age, joins }, { db }) => {
      const [first, second] = [await newcomer(db), await newcomer(db)];
      const device = await makeDevice(db, first);
      const { added } = await add(db, device, { claims: second });
      await db.query(
        "update private.account_additions set expires_at = expires_at - $2::interval where secret_hash = decode($1, 'hex')",
        [hash(added), age],
      );
      const { secret = "" } = await take(db, device, [added]);
      expect(await accountsOf(db, { ...device, secret })).toHaveLength(joins ? 2 : 1);
      await call(db, "sweep_account_devices", []);
      expect(await alive(db, first, second)).toEqual([true, joins]);
    },
  );

  test.for([
    { age: "59 seconds", status: "kept" },
    { age: "60 seconds", status: "unknown" },
  ])("a replaced device secret can add an account for one more minute: $age", async ({ age, status }, { db }) => {
    const [first, second, third] = [await newcomer(db), await newcomer(db), await newcomer(db)];
    const device = await makeDevice(db, first);
    const { added } = await add(db, device, { claims: second });
    const { secret = "" } = await take(db, device, [added]);
    await spentFor(db, { device, age });
    const late = await add(db, device, { claims: third });
    expect(late.status).toBe(status);
    // An account that was added with the device's previous secret joins the browser only after a call with the
    // current secret.
    expect((await take(db, device, [late.added])).status).not.toBe("current");
    await take(db, { ...device, secret }, [late.added]);
    const [{ count }] = (await db.query(
      "select count(*)::int from private.account_vault_entries where device_id = $1",
      [device.id],
    )) as [{ count: number }];
    expect(count).toBe(status === "kept" ? 3 : 2);
  });

  test.for([
    { age: "59 seconds", status: "kept" },
    { age: "60 seconds", status: "unknown" },
  ])(
    "a replaced device secret is accepted for a minute, even if other accounts have been added to the browser since: $age",
    async ({ age, status }, { db }) => {
      const device = await makeDevice(db, await newcomer(db));
      let { secret } = device;
      for (const claims of [await newcomer(db), await newcomer(db)]) {
        const { added } = await add(db, { ...device, secret }, { claims });
        ({ secret = "" } = await take(db, { ...device, secret }, [added]));
      }
      await spentFor(db, { device, age });
      const late = await add(db, device, { claims: await newcomer(db) });
      expect(late.status).toBe(status);
      expect((await take(db, device, [late.added])).status).not.toBe("current");
      expect(await accountsOf(db, device)).toBeUndefined();
      ({ secret = "" } = await take(db, { ...device, secret }, [late.added]));
      expect(await accountsOf(db, { ...device, secret })).toHaveLength(status === "kept" ? 4 : 3);
    },
  );

  test("accounts being added count towards the browser's limit of ten accounts, each account once", async ({ db }) => {
    const device = await makeDevice(db, await newcomer(db));
    const tenth = await newcomer(db);
    for (let count = 2; count < 10; count += 1) {
      expect((await add(db, device, { claims: await newcomer(db) })).status).toBe("kept");
    }
    for (const _ of [1, 2]) expect((await add(db, device, { claims: tenth })).status).toBe("kept");
    expect((await add(db, device, { claims: await newcomer(db) })).status).toBe("full");
  });

  test("the session of an account being added ends when the browser signs out of it or of all accounts, or the account is deleted", async ({
    db,
  }) => {
    const [first, second, third] = [await newcomer(db), await newcomer(db), await newcomer(db)];
    const device = await makeDevice(db, first);
    const again = await signIn(db, { userId: first.sub });
    await add(db, device, { claims: again });
    await call(db, "sign_out_account", [device.id, device.secret, first.sub]);
    expect(await alive(db, first, again)).toEqual([false, false]);
    const { added } = await add(db, device, { claims: second });
    await db.query("delete from auth.users where id = $1", [second.sub]);
    expect(await take(db, device, [added])).toEqual({ status: "current", secret: device.secret });
    await add(db, device, { claims: third });
    const ended = await call(db, "sign_out_device", [device.id, device.secret]);
    expect(ended).toEqual([{ userId: third.sub, sessionId: third.session_id }]);
    expect(await alive(db, third)).toEqual([false]);
  });
});

describe("a session that replaces an earlier session of the same account", () => {
  test("replacing an account's session keeps the device secret, and can be repeated if the response was lost", async ({
    db,
  }) => {
    const [first, second] = [await newcomer(db), await newcomer(db)];
    const device = await makeDevice(db, first);
    const [next, late] = [await signIn(db, { userId: first.sub }), await signIn(db, { userId: first.sub })];
    const proceed = async (claims: Claims, inPlaceOf: string, secret = device.secret) =>
      (
        await call<{ status: string }>(db, "continue_account_session", [
          { deviceId: device.id, secret, inPlaceOf, ...sealedFor(claims) },
        ])
      ).status;
    expect(await proceed(next, first.session_id, "other")).toBe("unknown");
    expect(await proceed(next, randomUUID())).toBe("over");
    for (const _ of [1, 2]) expect(await proceed(next, first.session_id)).toBe("kept");
    expect(await alive(db, first, next)).toEqual([false, true]);
    expect(await proceed(late, first.session_id)).toBe("over");
    const state = await call<{ active: { sessionId: string } }>(db, "device_state", [device.id, device.secret]);
    expect(state.active.sessionId).toBe(next.session_id);
    // A session can't be continued with a spent secret or for a signed-out account.
    const { added } = await add(db, device, { claims: second });
    const { secret = "" } = await take(db, device, [added]);
    expect(await proceed(late, next.session_id)).toBe("unknown");
    await call(db, "sign_out_account", [device.id, secret, first.sub]);
    expect(await proceed(late, next.session_id, secret)).toBe("over");
  });
});

describe(`${callers} concurrent callers that add accounts to a browser`, () => {
  const { db, close } = keptPool();
  const made: string[] = [];
  afterAll(async () => {
    await db.query("delete from auth.users where id = any ($1)", [made]);
    await close();
  });

  async function committed(count: number): Promise<Claims[]> {
    const people: Claims[] = [];
    for (let nth = 0; nth < count; nth += 1) {
      const claims = await newcomer(db);
      made.push(claims.sub);
      people.push(claims);
    }
    return people;
  }
  const atOnce = <Answer>(work: (nth: number) => Promise<Answer>) =>
    Promise.all(Array.from({ length: callers }, (_, nth) => work(nth)));

  test("concurrent callers can't exceed the browser's account limit, and every accepted account is added to the browser", async () => {
    const [first, ...others] = (await committed(12)) as [Claims, ...Claims[]];
    const device = await makeDevice(db, first);
    const answers = await atOnce(async (nth) => {
      const { sub: userId } = others[nth % others.length] as Claims;
      return add(db, device, { claims: await signIn(db, { userId }) });
    });
    const kept = answers.filter(({ status }) => status === "kept").map(({ added }) => added);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(["kept", "full"]));
    // Simulates concurrent tabs that hold different numbers of added-account cookies.
    const taken = await atOnce((nth) => take(db, device, kept.slice(0, 1 + (nth % kept.length))));
    // A request with all accounts succeeds, even if requests with fewer accounts came first.
    expect(taken.filter(({ status }, nth) => nth % kept.length === kept.length - 1 && status !== "current")).toEqual(
      [],
    );
    const last = await take(db, device, kept);
    const accounts = (await accountsOf(db, { ...device, secret: last.secret ?? "" })) ?? [];
    expect(accounts).toHaveLength(10);
    expect(await atOnce(() => take(db, device, kept))).toEqual(Array(callers).fill(last));
    // Each added account has two sessions: the one in which it was created, and a second one that was added to this
    // browser.
    const sessions = await db.query("select from auth.sessions where user_id = any ($1)", [accounts]);
    expect(sessions).toHaveLength(1 + 9 * 2);
  }, 30_000);

  test("if an owner and a thief finish adding their accounts to a browser at the same time, only one account is added", async () => {
    const [first, owners, thiefs] = (await committed(3)) as [Claims, Claims, Claims];
    const device = await makeDevice(db, first);
    const [own, stolen] = [await add(db, device, { claims: owners }), await add(db, device, { claims: thiefs })];
    const answers = await atOnce((nth) => take(db, device, [nth % 2 === 0 ? own.added : stolen.added]));
    const winners = new Set(answers.flatMap(({ status }, nth) => (status === "current" ? [nth % 2] : [])));
    expect(winners.size).toBe(1);
    const secret = answers.find(({ status }) => status === "current")?.secret ?? "";
    const joined = winners.has(0) ? owners : thiefs;
    expect((await accountsOf(db, { ...device, secret }))?.toSorted()).toEqual([first.sub, joined.sub].sort());
  });

  test("adding an account, completing its addition and signing out never deadlock while an account is deleted concurrently", async () => {
    const [first, second, third] = (await committed(3)) as [Claims, Claims, Claims];
    const device = await makeDevice(db, first);
    const { added } = await add(db, device, { claims: second });
    await atOnce(async (nth): Promise<unknown> => {
      if (nth === 20) return db.query("delete from auth.users where id = $1", [second.sub]);
      if (nth === 40) return call(db, "sign_out_device", [device.id, device.secret]);
      if (nth % 2 === 0) return take(db, device, [added]);
      return add(db, device, { claims: third }).catch(({ code }) => expect(code).toBe("23503"));
    });
    expect(await alive(db, second)).toEqual([false]);
  });

  test("concurrent requests of every kind never deadlock, and the browser keeps all remaining accounts", async () => {
    const [first, second, third, fourth] = (await committed(4)) as [Claims, Claims, Claims, Claims];
    const device = await makeDevice(db, first);
    const shown: string[] = [];
    for (const claims of [second, third]) shown.push((await add(db, device, { claims })).added);
    const next = await signIn(db, { userId: first.sub });
    const successorOf = (secret: string) => `after ${secret}`;
    async function open(): Promise<Held> {
      let { secret = device.secret, status } = await take(db, device, shown);
      if (status === "previous")
        ({ secret = "", status } = await take(db, { ...device, secret: successorOf(secret) }, shown));
      expect(status).toBe("current");
      return { ...device, secret };
    }

    const requests: ((held: Held) => Promise<unknown>)[] = [
      (held) => add(db, held, { claims: fourth }),
      (held) => call(db, "continue_account_session", [{ ...entryOf(held, next), inPlaceOf: first.session_id }]),
      (held) => call(db, "store_account_session", [{ ...entryOf(held, first), expectedTag: "other" }]),
      (held) => call(db, "sign_out_account", [held.id, held.secret, third.sub]),
      ({ id }) => call(db, "discard_account_session", [id, first.sub, "other", true]),
      ({ id, secret }) => call(db, "confirm_device_secret", [id, secret]),
      () => call(db, "sweep_account_devices", []),
      async (held) => {
        const lease = randomUUID();
        const begin = [held.id, held.secret, second.sub, lease];
        const { target } = await call<{ target?: { tag: string } }>(db, "begin_account_switch", begin);
        if (!target) return;
        const nextHash = hash(successorOf(held.secret));
        const entry = { ...entryOf(held, second), nextHash, leaseId: lease, expectedTag: target.tag };
        await call(db, "activate_account", [entry]);
      },
    ];
    await atOnce(async (nth) => {
      if (nth === 20) await db.query("delete from auth.users where id = $1", [third.sub]);
      if (nth === 30) await db.query("delete from auth.users where id = $1", [fourth.sub]);
      const held = await open();
      await requests[nth % requests.length]?.(held).catch(({ code }) => expect(code).toBe("23503"));
    });
    expect((await accountsOf(db, await open()))?.toSorted()).toEqual([first.sub, second.sub].sort());
  });
});
