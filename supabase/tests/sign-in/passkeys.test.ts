import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { createUser, type Database, enrollFactor, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createIdentity } from "./oauth-fixtures.ts";

async function addPasskey(
  db: Database,
  { userId, name, minutesAgo }: { userId: string; name: string; minutesAgo: number },
) {
  const [id, credentialId] = [randomUUID(), randomBytes(24)];
  await db.query(
    `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, friendly_name, created_at)
     values ($1, $2, $3, $4, $5, now() - make_interval(mins => $6))`,
    [id, userId, credentialId, randomBytes(8), name, minutesAgo],
  );
  return { id, credentialId: credentialId.toString("hex") };
}

const passkeysOf = (db: Database, userId: string) =>
  db.asRole("service_role", () => db.query("select * from private.list_passkeys($1)", [userId]));

const exists = (db: Database, credentialId: string) =>
  db.asRole("service_role", () =>
    one(db, { sql: "select private.passkey_exists($1) as known", values: [credentialId] }),
  );

describe("list_passkeys", () => {
  const listed = { aaguid: null, device: null, created_at: expect.any(Date), last_used_at: null };

  test("lists only the account's own passkeys, oldest first", async ({ db }) => {
    const [user, other] = [await createUser(db), await createUser(db)];
    const young = await addPasskey(db, { userId: user.id, name: "Phone", minutesAgo: 1 });
    const old = await addPasskey(db, { userId: user.id, name: "Laptop", minutesAgo: 9 });
    await addPasskey(db, { userId: other.id, name: "Key", minutesAgo: 5 });
    expect(await passkeysOf(db, user.id)).toEqual([
      { ...listed, id: old.id, credential_id: old.credentialId, name: "Laptop" },
      { ...listed, id: young.id, credential_id: young.credentialId, name: "Phone" },
    ]);
  });

  test("returns a passkey's provider and the device on which the passkey was added", async ({ db }) => {
    const { id: userId } = await createUser(db);
    const { id } = await addPasskey(db, { userId, name: "Passkey", minutesAgo: 0 });
    await db.query(
      "update auth.webauthn_credentials set aaguid = '53414d53-554e-4700-0000-000000000000' where id = $1",
      [id],
    );
    await db.query(
      "update public.security_events set device = 'Chrome on Linux' where target_id = $1 and kind = 'passkey_added'",
      [id],
    );
    await db.query("update auth.webauthn_credentials set friendly_name = 'Old laptop' where id = $1", [id]);
    await db.query(
      "update public.security_events set device = 'Firefox on Linux' where target_id = $1 and kind = 'passkey_renamed'",
      [id],
    );
    expect(await passkeysOf(db, userId)).toMatchObject([
      { name: "Old laptop", aaguid: "53414d53-554e-4700-0000-000000000000", device: "Chrome on Linux" },
    ]);
  });

  test("lists no passkeys for an account without passkeys or for an unknown account", async ({ db }) => {
    expect(await passkeysOf(db, (await createUser(db)).id)).toEqual([]);
    expect(await passkeysOf(db, randomUUID())).toEqual([]);
  });
});

describe("passkey_exists", () => {
  test("finds a passkey of any account by its full id, until it is deleted", async ({ db }) => {
    const user = await createUser(db);
    const { id, credentialId } = await addPasskey(db, { userId: user.id, name: "Laptop", minutesAgo: 0 });
    expect(await exists(db, credentialId)).toEqual({ known: true });
    expect(await exists(db, credentialId.toUpperCase())).toEqual({ known: true });
    expect(await exists(db, credentialId.slice(0, -2))).toEqual({ known: false });
    expect(await exists(db, "")).toEqual({ known: false });
    await db.query("delete from auth.webauthn_credentials where id = $1", [id]);
    expect(await exists(db, credentialId)).toEqual({ known: false });
  });

  test("passkey_exists raises if the id is not hexadecimal", async ({ db }) => {
    await addPasskey(db, { userId: (await createUser(db)).id, name: "Laptop", minutesAgo: 0 });
    expect(await failureOf(() => exists(db, "xyz"))).toMatchObject({ code: "22023" });
  });
});

interface Deletion {
  userId: string;
  sessionId: string;
  passkeyId: string;
}

async function deletePasskey(db: Database, { userId, sessionId, passkeyId }: Deletion): Promise<string> {
  const { outcome } = await one<{ outcome: string }>(db, {
    sql: "select private.delete_passkey($1, $2, $3, $4) as outcome",
    values: [userId, sessionId, passkeyId, ["google", "github"]],
  });
  return outcome;
}

/** Creates a signed-in account whose only way to sign in is a passkey. */
async function createOwner(db: Database) {
  const user = await createUser(db);
  await db.query("update auth.users set encrypted_password = '', email_confirmed_at = now() where id = $1", [user.id]);
  const { id: passkeyId } = await addPasskey(db, { userId: user.id, name: "Laptop", minutesAgo: 0 });
  const { session_id: sessionId } = await signIn(db, { userId: user.id });
  return { ...user, userId: user.id, sessionId, passkeyId };
}

describe("delete_passkey", () => {
  test("keeps a passkey that is the last way to sign in", async ({ db }) => {
    const owner = await createOwner(db);
    expect(await db.asRole("service_role", () => deletePasskey(db, owner))).toBe("last_method");
    expect(await passkeysOf(db, owner.id)).toHaveLength(1);
  });

  test.for([
    [
      "a password",
      (db: Database, id: string) =>
        db.query("update auth.users set encrypted_password = '$2a$10$h' where id = $1", [id]),
    ],
    ["another passkey", (db: Database, userId: string) => addPasskey(db, { userId, name: "Phone", minutesAgo: 0 })],
    [
      "an enabled provider",
      (db: Database, userId: string) => createIdentity(db, { userId, email: "a@x.test", provider: "github" }),
    ],
  ] as const)("deletes a passkey if %s remains", async ([, add], { db }) => {
    const owner = await createOwner(db);
    await add(db, owner.id);
    expect(await deletePasskey(db, owner)).toBe("deleted");
    expect(await deletePasskey(db, owner)).toBe("not_found");
  });

  test.for([
    [
      "a password for an unconfirmed address",
      (db: Database, id: string) =>
        db.query("update auth.users set encrypted_password = '$2a$10$h', email_confirmed_at = null where id = $1", [
          id,
        ]),
    ],
    [
      "a disabled provider",
      (db: Database, userId: string) => createIdentity(db, { userId, email: "a@x.test", provider: "apple" }),
    ],
  ] as const)("does not count %s as a remaining sign-in method", async ([, add], { db }) => {
    const owner = await createOwner(db);
    await add(db, owner.id);
    expect(await deletePasskey(db, owner)).toBe("last_method");
  });

  test("delete_passkey does not find another account's passkey", async ({ db }) => {
    const [owner, other] = [await createOwner(db), await createOwner(db)];
    await addPasskey(db, { userId: other.id, name: "Phone", minutesAgo: 0 });
    expect(await deletePasskey(db, { ...owner, passkeyId: other.passkeyId })).toBe("not_found");
    expect(await passkeysOf(db, other.id)).toHaveLength(2);
  });

  test("deleting a passkey of an account with an authenticator requires a session that used the authenticator", async ({
    db,
  }) => {
    const owner = await createOwner(db);
    await addPasskey(db, { userId: owner.id, name: "Phone", minutesAgo: 0 });
    await enrollFactor(db, { userId: owner.id, status: "unverified" });
    const factorId = await enrollFactor(db, { userId: owner.id });
    expect(await deletePasskey(db, owner)).toBe("insufficient_aal");
    const other = await createOwner(db);
    const { session_id: foreign } = await signIn(db, { userId: other.id, factorId });
    expect(await deletePasskey(db, { ...owner, sessionId: foreign })).toBe("insufficient_aal");
    const { session_id: sessionId } = await signIn(db, { userId: owner.id, factorId });
    expect(await deletePasskey(db, { ...owner, sessionId })).toBe("deleted");
  });

  test("concurrent deletions of all 50 passkeys leave one as the last way to sign in", async () => {
    const { db, close } = openPool(10);
    const owner = await createOwner(db);
    try {
      const passkeyIds = [owner.passkeyId];
      while (passkeyIds.length < 50) {
        passkeyIds.push((await addPasskey(db, { userId: owner.id, name: "Key", minutesAgo: 0 })).id);
      }
      const outcomes = await Promise.all(passkeyIds.map((passkeyId) => deletePasskey(db, { ...owner, passkeyId })));
      expect(outcomes.sort()).toEqual([...Array.from({ length: 49 }, () => "deleted"), "last_method"]);
    } finally {
      await db.query("delete from auth.users where id = $1", [owner.id]);
      await close();
    }
  });
});

test("only the service role can call the passkey functions", async ({ db }) => {
  const claims = await createActor(db, {});
  for (const call of [
    `list_passkeys('${claims.sub}')`,
    "passkey_exists('00')",
    `delete_passkey('${claims.sub}', null, null, '{}')`,
  ]) {
    const ask = () => db.query(`select private.${call}`);
    expect(await failureOf(() => db.asUser(claims, ask)), call).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("anon", ask)), call).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask)), call).toMatchObject({ code: "42501" });
  }
});
