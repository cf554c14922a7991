import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "./actors.ts";
import { createUser, type Database, one, test } from "./database.ts";

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
  db.asRole("service_role", () => db.query("select * from private.passkeys_of($1)", [userId]));

const exists = (db: Database, credentialId: string) =>
  db.asRole("service_role", () =>
    one(db, { sql: "select private.passkey_exists($1) as known", values: [credentialId] }),
  );

describe("passkeys_of", () => {
  test("lists an account's passkeys, oldest first, and nobody else's", async ({ db }) => {
    const [user, other] = [await createUser(db), await createUser(db)];
    const young = await addPasskey(db, { userId: user.id, name: "Phone", minutesAgo: 1 });
    const old = await addPasskey(db, { userId: user.id, name: "Laptop", minutesAgo: 9 });
    await addPasskey(db, { userId: other.id, name: "Key", minutesAgo: 5 });
    expect(await passkeysOf(db, user.id)).toEqual([
      { id: old.id, credential_id: old.credentialId, name: "Laptop", created_at: expect.any(Date), last_used_at: null },
      {
        id: young.id,
        credential_id: young.credentialId,
        name: "Phone",
        created_at: expect.any(Date),
        last_used_at: null,
      },
    ]);
  });

  test("is empty for an account without any, and for none", async ({ db }) => {
    expect(await passkeysOf(db, (await createUser(db)).id)).toEqual([]);
    expect(await passkeysOf(db, randomUUID())).toEqual([]);
  });
});

describe("passkey_exists", () => {
  test("knows a passkey of any account by its whole id, until it is deleted", async ({ db }) => {
    const user = await createUser(db);
    const { id, credentialId } = await addPasskey(db, { userId: user.id, name: "Laptop", minutesAgo: 0 });
    expect(await exists(db, credentialId)).toEqual({ known: true });
    expect(await exists(db, credentialId.toUpperCase())).toEqual({ known: true });
    expect(await exists(db, credentialId.slice(0, -2))).toEqual({ known: false });
    expect(await exists(db, "")).toEqual({ known: false });
    await db.query("delete from auth.webauthn_credentials where id = $1", [id]);
    expect(await exists(db, credentialId)).toEqual({ known: false });
  });

  test("raises over what is no hexadecimal", async ({ db }) => {
    expect(await failureOf(() => exists(db, "xyz"))).toMatchObject({ code: "22023" });
  });
});

test("nobody but the service role asks about passkeys", async ({ db }) => {
  const claims = await createActor(db, {});
  for (const call of [`passkeys_of('${claims.sub}')`, "passkey_exists('00')"]) {
    const ask = () => db.query(`select private.${call}`);
    expect(await failureOf(() => db.asUser(claims, ask)), call).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("anon", ask)), call).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask)), call).toMatchObject({ code: "42501" });
  }
});
