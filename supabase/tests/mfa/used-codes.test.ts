import { createHash, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";

const callers = 60;
const newHash = () => createHash("sha256").update(randomUUID()).digest("hex");

const claim = async (db: Database, { hash, session }: { hash: string; session: string }) =>
  (await one<{ won: boolean }>(db, { sql: "select private.claim_mfa_code($1, $2) as won", values: [hash, session] }))
    .won;
const release = (
  db: Database,
  { hash, session, verified }: { hash: string; session: string; verified: boolean | null },
) => db.query("select private.release_mfa_code($1, $2, $3)", [hash, session, verified]);
const age = (db: Database, { hash, seconds }: { hash: string; seconds: number }) =>
  db.query(
    "update private.used_mfa_codes set expires_at = expires_at - make_interval(secs => $2) where code_hash = decode($1, 'hex')",
    [hash, seconds],
  );

describe("claim_mfa_code", () => {
  test("only the first caller can claim an MFA code; a second call is refused, even from the same session", async ({
    db,
  }) => {
    const [hash, session] = [newHash(), randomUUID()];
    expect(await claim(db, { hash, session })).toBe(true);
    expect(await claim(db, { hash, session })).toBe(false);
    expect(await claim(db, { hash, session: randomUUID() })).toBe(false);
    expect(await claim(db, { hash: newHash(), session })).toBe(true);
  });

  test("the claim of an MFA code lasts exactly 120 s", async ({ db }) => {
    const [hash, session] = [newHash(), randomUUID()];
    await claim(db, { hash, session });
    await age(db, { hash, seconds: 119.9 });
    expect(await claim(db, { hash, session })).toBe(false);
    await age(db, { hash, seconds: 0.1 });
    expect(await claim(db, { hash, session })).toBe(true);
  });

  test("claiming an MFA code deletes expired claims", async ({ db }) => {
    const hashes = [newHash(), newHash(), newHash()];
    for (const hash of hashes) await claim(db, { hash, session: randomUUID() });
    for (const hash of hashes.slice(1)) await age(db, { hash, seconds: 120 });
    await claim(db, { hash: newHash(), session: randomUUID() });
    const left = await db.query("select from private.used_mfa_codes where encode(code_hash, 'hex') = any ($1)", [
      hashes,
    ]);
    expect(left).toHaveLength(1);
  });

  test(`only one of ${callers} concurrent callers can claim an MFA code`, async () => {
    const { db, close } = openPool(callers);
    try {
      const hash = newHash();
      const won = await Promise.all(Array.from({ length: callers }, () => claim(db, { hash, session: randomUUID() })));
      expect(won.filter(Boolean)).toHaveLength(1);
    } finally {
      await close();
    }
  });
});

describe("release_mfa_code", () => {
  test("after release_mfa_code releases a wrong code, any session can claim the code", async ({ db }) => {
    const [hash, session] = [newHash(), randomUUID()];
    await claim(db, { hash, session });
    await release(db, { hash, session, verified: false });
    expect(await claim(db, { hash, session: randomUUID() })).toBe(true);
  });

  test("if release_mfa_code is called without a known result, only the same session can claim the code again, and only once", async ({
    db,
  }) => {
    const [hash, session] = [newHash(), randomUUID()];
    await claim(db, { hash, session });
    await release(db, { hash, session, verified: null });
    expect(await claim(db, { hash, session: randomUUID() })).toBe(false);
    expect(await claim(db, { hash, session })).toBe(true);
    expect(await claim(db, { hash, session })).toBe(false);
  });

  test("release_mfa_code does not release the claim on a verified code", async ({ db }) => {
    const [hash, session] = [newHash(), randomUUID()];
    await claim(db, { hash, session });
    await release(db, { hash, session, verified: true });
    expect(await claim(db, { hash, session })).toBe(false);
  });

  test.for([false, null])(
    "release_mfa_code does not change another session's claim (verified: %s)",
    async (verified, { db }) => {
      const [hash, session, other] = [newHash(), randomUUID(), randomUUID()];
      await claim(db, { hash, session });
      await release(db, { hash, session: other, verified });
      expect(await claim(db, { hash, session })).toBe(false);
      expect(await claim(db, { hash, session: other })).toBe(false);
    },
  );

  test(`only one of ${callers} concurrent retries can claim a released code`, async () => {
    const { db, close } = openPool(callers);
    try {
      const [hash, session] = [newHash(), randomUUID()];
      await claim(db, { hash, session });
      await release(db, { hash, session, verified: null });
      const won = await Promise.all(Array.from({ length: callers }, () => claim(db, { hash, session })));
      expect(won.filter(Boolean)).toHaveLength(1);
    } finally {
      await close();
    }
  });
});

test("only the service role can claim or release MFA codes", async ({ db }) => {
  const claims = await createActor(db, {});
  const calls: (() => Promise<unknown>)[] = [
    () => claim(db, { hash: newHash(), session: claims.session_id }),
    () => release(db, { hash: newHash(), session: claims.session_id, verified: false }),
  ];
  for (const call of calls) {
    expect((await failureOf(() => db.asUser(claims, call))).code).toBe("42501");
    for (const role of ["anon", "gateway"] as const)
      expect((await failureOf(() => db.asRole(role, call))).code).toBe("42501");
    await db.asRole("service_role", call);
  }
});
