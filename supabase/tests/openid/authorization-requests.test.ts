import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Answer, call, newHash } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";

const redirectUri = "https://client.example/callback";
const parameters = "client_id=charts&state=s";

async function registerClient(
  db: Database,
  { isPublic = false, requiresPkce = true }: { isPublic?: boolean; requiresPkce?: boolean } = {},
) {
  const [name, secretHash] = [`client-${randomBytes(8).toString("hex")}`, newHash()];
  await db.query(
    `with app as (
       insert into private.apps (name, display_name, kind, scopes) values ($1, 'Charts', 'openid', '{profile}') returning id
     ), client as (
       insert into private.openid_clients (app_id, is_public, redirect_uris, requires_pkce)
       select id, $2, array[$3], $4 from app
     )
     insert into private.app_secrets (app_id, secret_hash) select id, $5 from app where not $2`,
    [name, isPublic, redirectUri, requiresPkce, secretHash],
  );
  return { name, secretHash: isPublic ? null : secretHash };
}

async function store(db: Database, name: string) {
  const handle = newHash();
  const answer = await call(db, "store_authorization_request", {
    ...{ client_id: name, parameters, handle_hash: handle, address: "192.0.2.1" },
  });
  return { handle, answer };
}

const push = (
  db: Database,
  { name, secretHash }: { name: string; secretHash: Buffer | null },
  given: Record<string, unknown> = {},
): Promise<Answer> =>
  call(db, "push_authorization_request", {
    client_id: name,
    secret_hash: secretHash,
    redirect_uri: redirectUri,
    uses_pkce: true,
    parameters,
    handle_hash: newHash(),
    address: "192.0.2.1",
    ...given,
  });
const read = (db: Database, handle: Buffer) => call(db, "read_authorization_request", { handle_hash: handle });
const end = (db: Database, handle: Buffer) => call<boolean>(db, "end_authorization_request", { handle_hash: handle });

describe("a stored authorization request", () => {
  test("is read until it ends, which happens once", async ({ db }) => {
    const { name } = await registerClient(db);
    const { handle, answer } = await store(db, name);
    expect(answer).toEqual({ expiresInSeconds: 600 });
    expect(await read(db, handle)).toEqual({ clientId: name, parameters });
    expect(await read(db, newHash())).toBeNull();
    expect([await end(db, handle), await end(db, handle)]).toEqual([true, false]);
    expect(await read(db, handle)).toBeNull();
  });

  test.for([
    ["599 seconds", true],
    ["600 seconds", false],
  ] as const)("after %s it is still open: %s", async ([age, isOpen], { db }) => {
    const { handle } = await store(db, (await registerClient(db)).name);
    await db.query(
      `update private.authorization_requests
       set created_at = created_at - $2::interval, expires_at = expires_at - $2::interval where handle_hash = $1`,
      [handle, age],
    );
    expect((await read(db, handle)) !== null).toBe(isOpen);
    // The sweep deletes expired requests only.
    await db.query("select private.sweep_app_credentials()", []);
    expect(await end(db, handle)).toBe(isOpen);
  });

  test("an unknown client and a parameter list that is too long are refused", async ({ db }) => {
    expect((await store(db, "unknown")).answer).toEqual({ refused: "client" });
    const { name } = await registerClient(db);
    const args = { client_id: name, handle_hash: newHash(), address: "192.0.2.1" };
    expect(await call(db, "store_authorization_request", { ...args, parameters: "p".repeat(8_192) })).toEqual({
      expiresInSeconds: 600,
    });
    const tooLong = { ...args, handle_hash: newHash(), parameters: "p".repeat(8_193) };
    await expect(call(db, "store_authorization_request", tooLong)).rejects.toThrow("parameters_check");
  });

  test("limits the requests of one address, and those of a client with a secret separately", async ({ db }) => {
    const client = await registerClient(db);
    const { refused } = await one<{ refused: number }>(db, {
      sql: `select count(*) filter (where private.store_authorization_request(
              $1, 'p', sha256(convert_to('handle ' || n, 'UTF8')), '192.0.2.1'
            ) ? 'refused')::integer as refused
            from generate_series(1, 300) n`,
      values: [client.name],
    });
    expect(refused).toBe(0);
    expect((await store(db, client.name)).answer).toMatchObject({ refused: "limited", retryAfterSeconds: 2 });
    expect(await push(db, await registerClient(db, { isPublic: true }))).toMatchObject({ refused: "limited" });
    expect(await push(db, client)).toEqual({ expiresInSeconds: 600 });
  });
});

describe("a pushed authorization request", () => {
  test.for([
    [{}, undefined],
    [{ secret_hash: newHash() }, "unauthenticated"],
    [{ secret_hash: null }, "unauthenticated"],
    [{ redirect_uri: "https://evil.example/" }, "redirect_uri"],
    [{ uses_pkce: false }, "pkce"],
  ] as const)("with %j it is refused: %s", async ([given, refused], { db }) => {
    expect((await push(db, await registerClient(db), given)).refused).toBe(refused);
  });

  test("needs no PKCE if the client is registered without, and no secret of a public client", async ({ db }) => {
    const without = await registerClient(db, { requiresPkce: false });
    expect(await push(db, without, { uses_pkce: false })).toEqual({ expiresInSeconds: 600 });
    expect(await push(db, await registerClient(db, { isPublic: true }))).toEqual({ expiresInSeconds: 600 });
  });

  test("a disabled client can't push a request", async ({ db }) => {
    const client = await registerClient(db);
    await db.query("update private.apps set enabled = false where name = $1", [client.name]);
    expect(await push(db, client)).toEqual({ refused: "unauthenticated" });
  });
});

describe("a client without PKCE", () => {
  const issue = async (db: Database, requiresPkce: boolean, codeChallenge: string | null) => {
    const { name, secretHash } = await registerClient(db, { requiresPkce });
    const codeHash = newHash();
    const answer = await call(db, "issue_authorization_code", {
      claims: await createActor(db, {}),
      client_id: name,
      redirect_uri: redirectUri,
      scopes: ["openid"],
      nonce: null,
      code_challenge: codeChallenge,
      code_hash: codeHash,
      consents: true,
    });
    const redeem = (challenge: string | null) =>
      call(db, "redeem_authorization_code", {
        client_id: name,
        secret_hash: secretHash,
        code_hash: codeHash,
        redirect_uri: redirectUri,
        code_challenge: challenge,
        access_hash: newHash(),
        refresh_hash: newHash(),
      });
    return { answer, redeem };
  };
  const [own, other] = ["c".repeat(43), "d".repeat(43)];

  test("gets a code without a challenge only if it is registered so", async ({ db }) => {
    expect((await issue(db, true, null)).answer).toEqual({ refused: "client" });
    expect((await issue(db, false, null)).answer).toEqual({ scopes: ["openid"] });
  });

  // RFC 9700 section 4.8.2: a verifier for a code that was issued without a challenge, and the reverse, is an attack.
  test.for([
    [null, null, undefined],
    [null, own, "token"],
    [own, null, "token"],
    [own, other, "token"],
    [own, own, undefined],
  ] as const)(
    "a code with the challenge %s and a verifier for %s is refused: %s",
    async ([challenge, by, refused], { db }) => {
      const { redeem } = await issue(db, false, challenge);
      expect((await redeem(by)).refused).toBe(refused);
    },
  );

  test("a public client can't be registered without PKCE", async ({ db }) => {
    await expect(registerClient(db, { isPublic: true, requiresPkce: false })).rejects.toThrow(
      "public_clients_use_pkce",
    );
  });
});
