import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { commitPeople } from "../recovery/fixtures.ts";

const callers = 60;
type Lease = { outcome: string; leaseId?: string; email?: string };

async function take(db: Pick<Database, "query">, userId: string): Promise<Lease> {
  const [row] = await db.query<{ lease: Lease }>("select private.take_mint_lease($1) as lease", [userId]);
  return row?.lease ?? { outcome: "none" };
}

const release = (db: Pick<Database, "query">, leaseId: string | undefined) =>
  db.query("select private.release_mint_lease($1)", [leaseId]);

describe("leases for minting an account's session", () => {
  test("only one caller at a time can mint a session for an account, until the lease is released", async ({ db }) => {
    const { id, email } = await createUser(db);
    const first = await take(db, id);
    expect(first).toMatchObject({ outcome: "taken", email });
    expect(await take(db, id)).toEqual({ outcome: "busy" });
    await release(db, randomUUID());
    expect(await take(db, id)).toEqual({ outcome: "busy" });
    await release(db, first.leaseId);
    expect(await take(db, id)).toMatchObject({ outcome: "taken" });
  });

  test("minting a session for one account does not block another account", async ({ db }) => {
    const [mine, other] = [await createUser(db), await createUser(db)];
    expect(await take(db, mine.id)).toMatchObject({ outcome: "taken" });
    expect(await take(db, other.id)).toMatchObject({ outcome: "taken" });
  });

  test("if a server dies while it holds a mint lease, another session for the account can be minted after 20 seconds", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    const { leaseId } = await take(db, id);
    const age = (seconds: number) =>
      db.query(
        "update private.mint_leases set expires_at = now() + make_interval(secs => 20 - $2) where user_id = $1",
        [id, seconds],
      );
    const { left } = await one<{ left: number }>(db, {
      sql: "select extract(epoch from expires_at - now())::int as left from private.mint_leases where user_id = $1",
      values: [id],
    });
    expect(left).toBe(20);
    await age(19);
    expect(await take(db, id)).toEqual({ outcome: "busy" });
    await age(20);
    const next = await take(db, id);
    expect(next).toMatchObject({ outcome: "taken" });
    // A late release does not release another caller's lease.
    await release(db, leaseId);
    expect(await take(db, id)).toEqual({ outcome: "busy" });
  });

  test("minting a session requires an existing account with an email", async ({ db }) => {
    expect(await take(db, randomUUID())).toEqual({ outcome: "no_account" });
    const { id } = await createUser(db);
    await db.query("update auth.users set email = null where id = $1", [id]);
    expect(await take(db, id)).toEqual({ outcome: "no_email" });
  });

  test("minting a session with a generated link does not delay the account's next password-reset email", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    const sentAt = async () => {
      const sql = "select recovery_sent_at as at from auth.users where id = $1";
      return (await one<{ at: Date | null }>(db, { sql, values: [id] })).at;
    };
    const { leaseId } = await take(db, id);
    await db.query("update auth.users set recovery_sent_at = now(), recovery_token = 'generated' where id = $1", [id]);
    expect(await sentAt()).not.toBeNull();
    await db.query("update auth.users set recovery_token = '' where id = $1", [id]);
    await db.asRole("service_role", () => release(db, leaseId));
    expect(await sentAt()).toBeNull();
  });

  test(`only one of ${callers} concurrent callers may mint a session for an account`, async () => {
    const { db, close } = openPool(callers);
    const people = await commitPeople(db);
    try {
      const leases = await Promise.all(Array.from({ length: callers }, () => take(db, people.userId)));
      expect(leases.filter(({ outcome }) => outcome === "taken")).toHaveLength(1);
      expect(leases.filter(({ outcome }) => outcome === "busy")).toHaveLength(callers - 1);
    } finally {
      await people.remove();
      await close();
    }
  });
});
