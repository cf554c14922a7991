import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
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
