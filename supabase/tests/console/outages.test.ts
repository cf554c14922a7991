import { randomBytes } from "node:crypto";
import { afterAll, describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createAdmin } from "./fixtures.ts";

const { db: pool, close } = openPool(8);
afterAll(close);

type Alert = { id: string; kind: string; provider: string; ending: string | null; callers: object | null };
type Outage = { began: number; ended: number | null; routes: { model: string }[]; failure: string; status: number };

/**
 * Creates a provider with an enabled route to `good` and one to `bad`. Times are in seconds before the transaction began.
 * Keeps other sessions from recording outages until the transaction ends.
 */
async function createProvider(db: Database) {
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.record_provider_outages', 0))");
  const provider = `p_${randomBytes(6).toString("hex")}`;
  const model = `model-${provider}`;
  await db.query(
    "insert into ai.models (id, kind, display_name, owned_by, enabled) values ($1, 'chat', $1, 'test', true)",
    [model],
  );
  await db.query(
    `insert into ai.model_routes (model_id, position, provider_id, provider_model)
     values ($1, 1, $2, 'bad'), ($1, 2, $2, 'good')`,
    [model, provider],
  );
  const ago = "now() - $1::integer * interval '1 second'";
  return {
    provider,
    /** Stores that a route has failed since a time, last at another, and is skipped until a third, if any. */
    async fail({
      since,
      last = 0,
      skipped,
      route = "bad",
    }: {
      since: number;
      last?: number;
      skipped?: number;
      route?: string;
    }) {
      await db.query(
        `insert into ai.route_health as h (
           provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, skipped_until
         ) values ($1, $2, 'chat', now() - $3 * interval '1 second', 3, 'server_error', 503,
           now() - $4 * interval '1 second', now() - $5 * interval '1 second')
         on conflict (provider_id, provider_model, endpoint) do update set
           failing_since = excluded.failing_since, failures_in_row = 3, failed_at = excluded.failed_at,
           skipped_until = excluded.skipped_until`,
        [provider, route, since, last, skipped ?? null],
      );
    },
    /** Stores that the routes answered after their failures. */
    answer: () =>
      db.query(
        `update ai.route_health set failing_since = null, failures_in_row = 0, answered_at = now(), skipped_until = null
         where provider_id = $1`,
        [provider],
      ),
    disable: () => db.query("update ai.model_routes set enabled = false where provider_id = $1", [provider]),
    /** Pretends that a failing route was last seen some seconds ago. */
    wait: (seconds: number) =>
      db.query(`update ai.provider_outages set failing_at = ${ago} where provider_id = $2 and ended_at is null`, [
        seconds,
        provider,
      ]),
    /** Records outages as our server does, and returns the provider's, oldest first. */
    async record() {
      await db.asRole("service_role", () => db.query("select ai.record_provider_outages()"));
      return db.query<Outage>(
        `select extract(epoch from now() - began_at)::integer as began, extract(epoch from now() - ended_at)::integer as ended,
           routes, failure, status
         from ai.provider_outages where provider_id = $1 order by began_at`,
        [provider],
      );
    },
    /** Returns the emails about the provider that are due. */
    due: () => dueMails(db, provider),
  };
}

async function dueMails(db: Database, provider: string): Promise<Alert[]> {
  const sweep = { sql: "select ai.sweep_outage_mails(1000) as alerts" };
  const { alerts } = await one<{ alerts: Alert[] }>(db, sweep);
  return alerts.filter((alert) => alert.provider === provider);
}

const queueMail = async (db: Database, alert: Alert | undefined): Promise<number> => {
  const call = {
    sql: "select ai.queue_outage_mails($1, $2, 'text') as mails",
    values: [JSON.stringify(alert), `${alert?.provider} ${alert?.kind}`],
  };
  return (await one<{ mails: number }>(db, call)).mails;
};

const recipients = async (db: Database, subject: string) =>
  (await db.query<{ recipient: string }>("select recipient from private.outgoing_mails where subject = $1", [subject]))
    .map(({ recipient }) => recipient)
    .sort();

describe("an outage of a provider", () => {
  test.for([
    [59, 0],
    [60, 1],
  ] as const)("whose route has failed for %i s: %i outages", async ([since, outages], { db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since });
    expect(await provider.record()).toHaveLength(outages);
    expect(await provider.record()).toHaveLength(outages);
  });

  test("has the time of the first failure, the failing routes and the last failure", async ({ db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 70 });
    await provider.fail({ since: 300, last: 1, skipped: -30, route: "good" });
    const routes = [
      { model: "bad", endpoint: "chat" },
      { model: "good", endpoint: "chat" },
    ];
    const outage = { began: 300, ended: null, routes, failure: "server_error", status: 503 };
    expect(await provider.record()).toEqual([outage]);
    await db.query(
      `update ai.route_health set failing_since = null, failures_in_row = 0, skipped_until = null
       where provider_id = $1 and provider_model = 'good'`,
      [provider.provider],
    );
    await db.query("update ai.route_health set failure = 'timeout', status = null where provider_id = $1", [
      provider.provider,
    ]);
    expect(await provider.record()).toEqual([
      { ...outage, routes: routes.slice(0, 1), failure: "timeout", status: null },
    ]);
  });

  test("begins during a cooldown that lasts a minute, and not after a shorter one that no call followed", async ({
    db,
  }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 90, last: 85, skipped: 55 });
    expect(await provider.record()).toEqual([]);
    await provider.fail({ since: 90, last: 85, skipped: 30 });
    expect(await provider.record()).toHaveLength(1);
  });

  test.for([
    [119, null],
    [120, 120],
  ] as const)("whose routes work for %i s ended %s s ago", async ([seconds, ended], { db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 600 });
    await provider.record();
    await provider.answer();
    await provider.wait(seconds);
    expect(await provider.record()).toMatchObject([{ ended }]);
  });

  test("lasts while its routes fail again within two minutes", async ({ db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 600 });
    await provider.record();
    await provider.wait(300);
    await provider.fail({ since: 5 });
    expect(await provider.record()).toMatchObject([{ began: 600, ended: null }]);
    await provider.answer();
    expect(await provider.record()).toMatchObject([{ began: 600, ended: null }]);
  });

  test("ends at once when its routes are disabled, and begins for no disabled route or model", async ({ db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 600 });
    await provider.record();
    await provider.disable();
    expect(await provider.record()).toMatchObject([{ began: 600, ended: 0 }]);
    expect(await provider.record()).toHaveLength(1);
    const other = await createProvider(db);
    await other.fail({ since: 600 });
    await db.query("update ai.models set enabled = false where id = $1", [`model-${other.provider}`]);
    expect(await other.record()).toEqual([]);
  });

  test("is recorded by one caller at a time", async ({ db }) => {
    await createProvider(db);
    const others = Array.from({ length: 8 }, () =>
      one<{ n: number }>(pool, { sql: "select ai.record_provider_outages() as n" }),
    );
    expect(await Promise.all(others)).toEqual(Array(8).fill({ n: 0 }));
  });
});

describe("emails about outages", () => {
  test("name what callers got at the beginning, and why the outage ended", async ({ db }) => {
    const provider = await createProvider(db);
    await provider.fail({ since: 60 });
    await provider.record();
    const [began] = await provider.due();
    expect(began).toMatchObject({
      kind: "began",
      ending: null,
      callers: { calls: 0, answeredElsewhere: 0, failed: [] },
    });
    await queueMail(db, began);
    expect(await provider.due()).toEqual([]);
    await provider.wait(120);
    await provider.answer();
    await provider.record();
    const ended = (ending: string) => [{ kind: "ended", ending, callers: null, status: 503 }];
    expect(await provider.due()).toMatchObject(ended("answered"));
    await db.query("update ai.route_health set answered_at = now() - interval '1 hour' where provider_id = $1", [
      provider.provider,
    ]);
    expect(await provider.due()).toMatchObject(ended("quiet"));
    await provider.disable();
    expect(await provider.due()).toMatchObject(ended("disabled"));
    expect(await queueMail(db, (await provider.due())[0])).toBeGreaterThanOrEqual(0);
    expect(await provider.due()).toEqual([]);
  });

  test("are not sent about an outage that ended before the first one", async ({ db }) => {
    const admin = await createAdmin(db);
    const provider = await createProvider(db);
    await provider.fail({ since: 60 });
    await provider.record();
    const [began] = await provider.due();
    await provider.answer();
    await provider.wait(120);
    await provider.record();
    expect(await provider.due()).toEqual([]);
    expect(await queueMail(db, began)).toBe(0);
    expect(await recipients(db, `${provider.provider} began`)).not.toContain(admin.email);
  });

  test("go to admins who did not turn them off, and to no others", async ({ db }) => {
    const [admin, off, banned] = [await createAdmin(db), await createAdmin(db), await createAdmin(db)];
    const [finance, on, stranger] = [await createUser(db), await createUser(db), await createUser(db)];
    for (const { id } of [finance, on]) {
      await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [id]);
    }
    await db.query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [banned.id]);
    const choose = (actor: string, outages: boolean) => admin.ask("set_outage_mails", { actor, outages });
    expect(await choose(off.id, false)).toEqual({});
    expect(await choose(admin.id, false)).toEqual({});
    expect(await choose(admin.id, true)).toEqual({});
    for (const { id } of [finance, stranger]) expect(await choose(id, true)).toEqual({ refused: "forbidden" });
    // They were admins when they chose.
    for (const { id } of [on, stranger]) await db.query("insert into private.console_notices values ($1, true)", [id]);
    const provider = await createProvider(db);
    await provider.fail({ since: 60 });
    await provider.record();
    await db.asRole("service_role", async () => queueMail(db, (await provider.due())[0]));
    const emails = [admin, off, banned, finance, on, stranger].map(({ email }) => email);
    const got = await recipients(db, `${provider.provider} began`);
    expect(got.filter((email) => emails.includes(email))).toEqual([admin.email]);
  });

  test("are each queued by only one of eight concurrent sweeps", async ({ db }) => {
    // The stack's own server would end the outage, which has no routes.
    const { provider } = await createProvider(db);
    const admin = await createAdmin(pool, { pooled: true });
    const sweep = async () => {
      const [alert] = await dueMails(pool, provider);
      return alert ? [alert.kind, await queueMail(pool, alert)] : ["none", 0];
    };
    const race = async () => {
      const results = await Promise.all(Array.from({ length: 8 }, sweep));
      return results.filter(([, mails]) => mails !== 0).map(([kind]) => kind);
    };
    try {
      await pool.query("insert into ai.provider_outages (provider_id, began_at) values ($1, now())", [provider]);
      expect(await race()).toEqual(["began"]);
      await pool.query("update ai.provider_outages set ended_at = now() where provider_id = $1", [provider]);
      expect(await race()).toEqual(["ended"]);
      expect(await race()).toEqual([]);
    } finally {
      await pool.query("delete from ai.provider_outages where provider_id = $1", [provider]);
      await pool.query("delete from private.outgoing_mails where subject like $1", [`${provider} %`]);
      await pool.query("delete from auth.users where id = $1", [admin.id]);
    }
  });
});
