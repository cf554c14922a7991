import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { failureOf } from "../actors.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createAdmin } from "./fixtures.ts";

type Block = { id: string; address: string; active: boolean; liftReason: string | null };

async function addBlock(
  db: Database,
  { address, minutes = 15 }: { address: string; minutes?: number },
): Promise<string> {
  const { id } = await one<{ id: string }>(db, {
    sql: `insert into private.address_blocks (address, action, level, blocked_at, blocked_until)
          values (private.address_network($1), 'password', 1, now() - interval '1 day', now() + $2 * interval '1 minute')
          returning id`,
    values: [address, minutes],
  });
  return id;
}

async function list(
  db: Database,
  { address = null, subject = null }: { address?: string | null; subject?: string | null },
) {
  const { blocks } = await one<{ blocks: Block[] }>(db, {
    sql: "select private.list_address_blocks($1, $2) as blocks",
    values: [address, subject],
  });
  return blocks;
}

async function lift(db: Database, { actor, block }: { actor: string; block: string }) {
  const change = { actor, block, reason: "An office", requestId: "request-1", ip: "192.0.2.1" };
  const { answer } = await one<{ answer: { refused?: string; last?: { actorEmail: string } } }>(db, {
    sql: "select private.lift_address_block($1) as answer",
    values: [JSON.stringify(change)],
  });
  return answer;
}

/** Lifts blocks as the operator's command line does. Returns the networks; null if the account doesn't exist. */
async function unblock(
  db: Database,
  { address = null, email = null }: { address?: string | null; email?: string | null },
) {
  const { networks } = await db.asRole("service_role", () =>
    one<{ networks: string[] | null }>(db, {
      sql: "select private.unblock_address('An office', $1::inet, $2) as networks",
      values: [address, email],
    }),
  );
  return networks;
}

const attempt = async (db: Database, address: string) =>
  (
    await one<{ begun: { reason?: string } }>(db, {
      sql: "select private.begin_attempt($1) as begun",
      values: [JSON.stringify({ action: "password", address, email: `${randomUUID()}@x.test` })],
    })
  ).begun.reason;

describe("an address block", () => {
  test("an address block is found by any address in its network, even after the block expired", async ({ db }) => {
    const network = `2001:db8:${Math.floor(Math.random() * 65_535).toString(16)}:7`;
    const active = await addBlock(db, { address: `${network}::1` });
    const over = await addBlock(db, { address: `${network}::1`, minutes: -5 });
    const found = await list(db, { address: `${network}:9::9` });
    expect(found.map(({ id, active }) => ({ id, active }))).toEqual([
      { id: active, active: true },
      { id: over, active: false },
    ]);
    expect(found[0]?.address).toBe(`${network}::/64`);
    const single = `198.51.100.${Math.floor(Math.random() * 256)}`;
    await addBlock(db, { address: single });
    expect((await list(db, { address: single }))[0]?.address).toBe(single);
  });

  test("an account's page lists the current blocks of all addresses that appear in the account's events or sessions", async ({
    db,
  }) => {
    const account = await createUser(db);
    const [ofEvent, ofSession, over] = [newAddress(), newAddress(), newAddress()];
    for (const ip of [ofEvent, over]) {
      await db.query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', $2)", [
        account.id,
        ip,
      ]);
    }
    const { session_id } = await signIn(db, { userId: account.id });
    await db.query("update auth.sessions set ip = $2 where id = $1", [session_id, ofSession]);
    const blocks = [await addBlock(db, { address: ofEvent }), await addBlock(db, { address: ofSession })];
    await addBlock(db, { address: over, minutes: -5 });
    await addBlock(db, { address: newAddress() });
    const listed = await list(db, { subject: account.id });
    expect(listed.map(({ id }) => id).sort()).toEqual(blocks.sort());
  });

  test("lifting an address block requires a reason, succeeds only once, and allows attempts from the address again", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const address = `198.51.100.${Math.floor(Math.random() * 256)}`;
    const block = await addBlock(db, { address });
    expect(await attempt(db, address)).toBe("blocked");
    expect(await lift(db, { actor: admin.id, block })).toEqual({});
    expect(await attempt(db, address)).toBeUndefined();
    expect(await list(db, { address })).toMatchObject([{ active: false, liftReason: "An office" }]);
    expect(await lift(db, { actor: admin.id, block })).toMatchObject({ refused: "conflict" });
    const line = await one(db, {
      sql: "select action, actor_id, reason from private.admin_audit_log where target = $1",
      values: [`address ${address}`],
    });
    expect(line).toEqual({ action: "address_block.lift", actor_id: admin.id, reason: "An office" });
  });

  test("lifting an address block is refused for non-admins, expired blocks and unknown blocks", async ({ db }) => {
    const [admin, person] = [await createAdmin(db), await createUser(db)];
    const block = await addBlock(db, { address: newAddress() });
    expect(await lift(db, { actor: person.id, block })).toEqual({ refused: "forbidden" });
    expect(await lift(db, { actor: admin.id, block: randomUUID() })).toEqual({ refused: "not_found" });
    const over = await addBlock(db, { address: newAddress(), minutes: 0 });
    expect(await lift(db, { actor: admin.id, block: over })).toEqual({ refused: "expired" });
  });

  test("the operator lifts the blocks of an address's network, and the audit log has no actor", async ({ db }) => {
    const network = `2001:db8:${Math.floor(Math.random() * 65_535).toString(16)}:8`;
    await addBlock(db, { address: `${network}::1` });
    await addBlock(db, { address: `${network}::2`, minutes: 60 });
    await addBlock(db, { address: `${network}::3`, minutes: 0 });
    const other = await addBlock(db, { address: newAddress() });
    expect(await attempt(db, `${network}::4`)).toBe("blocked");
    expect(await unblock(db, { address: `${network}:9::9` })).toEqual([`${network}::/64`]);
    expect(await attempt(db, `${network}::4`)).toBeUndefined();
    expect(await unblock(db, { address: `${network}::1` })).toEqual([]);
    const lines = await db.query(
      `select action, actor_id, service_account_id, reason, request_id, before ->> 'level' as level
       from private.admin_audit_log where target = $1`,
      [`address ${network}::/64`],
    );
    const line = { actor_id: null, service_account_id: null, reason: "An office", request_id: null, level: "1" };
    expect(lines).toEqual([1, 2].map(() => ({ action: "address_block.lift", ...line })));
    const left = await db.query("select id from private.address_blocks where id = $1 and lifted_at is null", [other]);
    expect(left).toEqual([{ id: other }]);
  });

  test("the operator lifts the blocks of the networks from which an account was used lately", async ({ db }) => {
    const account = await createUser(db);
    const [used, unused] = [newAddress(), newAddress()];
    await db.query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', $2)", [
      account.id,
      used,
    ]);
    for (const address of [used, unused]) await addBlock(db, { address });
    expect(await unblock(db, { email: account.email.toUpperCase() })).toHaveLength(1);
    expect(await attempt(db, used)).toBeUndefined();
    expect(await attempt(db, unused)).toBe("blocked");
    expect(await unblock(db, { email: account.email })).toEqual([]);
    expect(await unblock(db, { email: `unknown-${account.email}` })).toBeNull();
  });

  test("lifting blocks as the operator requires a reason, and an address or an account", async ({ db }) => {
    for (const call of ["('', '192.0.2.1')", "('test')", "('test', '192.0.2.1', 'a@example.test')"]) {
      const failure = await failureOf(() =>
        db.asRole("service_role", () => db.query(`select private.unblock_address${call}`)),
      );
      expect([call, failure.code]).toEqual([call, "22023"]);
    }
    for (const role of ["anon", "authenticated", "gateway"] as const) {
      const call = () => db.query("select private.unblock_address('test', '192.0.2.1')");
      expect((await failureOf(() => db.asRole(role, call))).code).toBe("42501");
    }
  });

  test("20 concurrent operators write one line to the audit log", async () => {
    const { db, close } = openPool(20);
    const address = newAddress();
    const block = await addBlock(db, { address });
    const reason = randomUUID();
    try {
      const call = "select private.unblock_address($1, $2::inet) as networks";
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => one<{ networks: string[] }>(db, { sql: call, values: [reason, address] })),
      );
      expect(answers.filter(({ networks }) => networks.length === 1)).toHaveLength(1);
      const lines = await db.query("select from private.admin_audit_log where reason = $1", [reason]);
      expect(lines).toHaveLength(1);
    } finally {
      await db.query("delete from private.address_blocks where id = $1", [block]);
      await db.query("delete from private.admin_audit_log where reason = $1", [reason]);
      await close();
    }
  });

  test("only one of 20 concurrent admins lifts an address block", async () => {
    const { db, close } = openPool(20);
    const actor = randomUUID();
    const block = await addBlock(db, { address: newAddress() });
    try {
      await db.query(
        "insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test')",
        [actor],
      );
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [actor]);
      const answers = await Promise.all(Array.from({ length: 20 }, () => lift(db, { actor, block })));
      expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(1);
      expect(answers.filter(({ refused }) => refused === "conflict")).toHaveLength(19);
    } finally {
      await db.query("delete from private.address_blocks where id = $1", [block]);
      await db.query("delete from private.admin_audit_log where actor_id = $1", [actor]);
      await db.query("delete from auth.users where id = $1", [actor]);
      await close();
    }
  });
});
