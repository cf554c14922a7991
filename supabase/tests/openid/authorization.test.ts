import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, mfaStates, older } from "../actors.ts";
import { type Answer, call, newHash } from "../apps/fixtures.ts";
import {
  bindApproval,
  type Claims,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  proveApproval,
  signIn,
  test,
} from "../database.ts";

const redirectUri = "https://client.example/callback";
const challenge = "c".repeat(43);

/** Registers a client that may read profiles. */
async function registerClient(db: Database, { isPublic = true, redirectUris = [redirectUri] } = {}) {
  const name = `client-${randomBytes(8).toString("hex")}`;
  await db.query(
    `with app as (
       insert into private.apps (name, display_name, kind, scopes)
       values ($1, 'Charts', 'openid', '{profile,studio:read}') returning id
     )
     insert into private.openid_clients (app_id, is_public, redirect_uris) select id, $2, $3 from app`,
    [name, isPublic, redirectUris],
  );
  return name;
}

/** Issues an authorization code to a session, with the user's consent. */
async function issue(db: Database, claims: object, given: Record<string, unknown> = {}) {
  const codeHash = newHash();
  const clientId = (given.client_id as string | undefined) ?? (await registerClient(db));
  const answer = await call(db, "issue_authorization_code", {
    claims,
    client_id: clientId,
    redirect_uri: redirectUri,
    scopes: ["openid", "email", "offline_access"],
    nonce: null,
    code_challenge: challenge,
    code_hash: codeHash,
    consents: true,
    ...given,
  });
  return { answer, codeHash, clientId };
}

function redeem(db: Database, { codeHash, clientId }: { codeHash: Buffer; clientId: string }): Promise<Answer> {
  return call(db, "redeem_authorization_code", {
    client_id: clientId,
    secret_hash: null,
    code_hash: codeHash,
    redirect_uri: redirectUri,
    code_challenge: challenge,
    access_hash: newHash(),
    refresh_hash: newHash(),
  });
}

describe("an authorization code", () => {
  test("an app that a person consents to is in their activity, and a later code without a new consent is not", async ({
    db,
  }) => {
    const claims = await createActor(db, { mfa: "no policy and no factor" });
    const { clientId } = await issue(db, claims);
    const again = await issue(db, claims, { client_id: clientId, consents: false });
    expect(again.answer).toHaveProperty("scopes");
    const sql = "select details, session_id from public.security_events where user_id = $1 and kind = 'app_connected'";
    expect(await db.query(sql, [claims.sub])).toEqual([{ details: { app: "Charts" }, session_id: claims.session_id }]);
  });

  test.for(mfaStates)(
    "an account in the MFA state '$mfa' gets an authorization code (expected: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const { answer } = await issue(db, await createActor(db, { mfa }));
      if (satisfied) expect(answer).toEqual({ scopes: ["email", "offline_access", "openid"] });
      else expect(answer.refused).toMatch(/^(mfa_required|unauthenticated|unavailable)$/);
    },
  );

  test("an authorization code is void once the account requires a second factor that its session had not used", async ({
    db,
  }) => {
    const claims = await createActor(db, {});
    const issued = await issue(db, claims);
    await enrollFactor(db, { userId: claims.sub });
    expect(await redeem(db, issued)).toEqual({ refused: "token" });
  });

  test.for([
    [0, undefined],
    [1, "login_required"],
  ] as const)(
    "issuing an authorization code for a sign-in %i s older than allowed returns the refusal %s",
    async ([later, refused], { db }) => {
      const claims = await createActor(db, {});
      const authenticated = (claims.amr[0]?.timestamp ?? 0) + later;
      const { answer } = await issue(db, claims, { authenticated_since: authenticated });
      expect(answer.refused).toBe(refused);
    },
  );

  test("a session that may only replace its password gets no code", async ({ db }) => {
    const claims = await createActor(db, {});
    await db.query("insert into private.password_replacements (session_id, user_id) values ($1, $2)", [
      claims.session_id,
      claims.sub,
    ]);
    expect((await issue(db, claims)).answer).toEqual({ refused: "unauthenticated" });
  });

  test.for([
    ["consents", false, "consent_required"],
    ["redirect_uri", "https://evil.example/", "client"],
    ["client_id", "unknown", "client"],
    ["scopes", ["admin"], "scope"],
  ] as const)(
    "an authorization code is refused if %s is %j, with reason %s",
    async ([name, value, refused], { db }) => {
      expect((await issue(db, await createActor(db, {}), { [name]: value })).answer).toEqual({ refused });
    },
  );
});

describe("acr, amr and auth_time", () => {
  const facts = async (db: Database, claims: object) => {
    const { authTime, acr, amr } = await redeem(db, await issue(db, claims));
    return { authTime, acr, amr };
  };

  test("acr, amr and auth_time describe a sign-in with a password", async ({ db }) => {
    const claims = await createActor(db, {});
    expect(await facts(db, claims)).toEqual({ authTime: claims.amr[0]?.timestamp, acr: "aal1", amr: ["pwd"] });
  });

  test("after a password and an authenticator were used, acr is aal2, and auth_time is the later of the two times", async ({
    db,
  }) => {
    const claims = await createActor(db, { mfa: "a factor, at AAL2" });
    const code = claims.amr.find(({ method }) => method === "totp")?.timestamp ?? 0;
    expect(await facts(db, claims)).toEqual({ authTime: code, acr: "aal2", amr: ["mfa", "otp", "pwd"] });
    const old = older(claims, { seconds: 60, method: "totp" });
    expect(await facts(db, old)).toMatchObject({ authTime: code - 1, acr: "aal2" });
  });

  test("a login with a recovery code states aal2, but no approval on the phone", async ({ db }) => {
    const { id: userId } = await createUser(db);
    await enrollFactor(db, { userId });
    const claims = await signIn(db, { userId });
    const [key, hash] = [randomBytes(32), randomBytes(32).toString("hex")];
    proveApproval(claims, key);
    await db.query("select private.replace_mfa_recovery_codes($1, array[$2])", [userId, hash]);
    await db.query("select private.sign_in_with_recovery_code($1)", [
      JSON.stringify({ claims, codeHash: hash, proofKey: `\\x${key.toString("hex")}` }),
    ]);
    // New codes delete the row of the used one.
    await db.query("select private.replace_mfa_recovery_codes($1, '{}')", [userId]);
    expect(await facts(db, claims)).toMatchObject({ acr: "aal2", amr: ["mfa", "pwd"] });
  });

  test("a login with an approval on the phone states aal2 and ends when the approval expires", async ({ db }) => {
    const { id: userId } = await createUser(db);
    const factorId = await enrollFactor(db, { userId });
    const claims = await signIn(db, { userId });
    const second = await currentSecond(db);
    await bindApproval(db, { claims, factorId, secondFactorAt: second - 1 });
    const issued = await issue(db, claims);
    const { authTime, acr, amr, sid } = await redeem(db, issued);
    expect({ authTime, acr, amr }).toEqual({ authTime: second - 1, acr: "aal2", amr: ["mca", "mfa", "pwd"] });
    const { left } = await one<{ left: number }>(db, {
      sql: "select extract(epoch from ends_at - now())::float8 as left from private.openid_grants where id = $1",
      values: [sid],
    });
    expect(left).toBeLessThanOrEqual(3600);
  });

  test.for([
    ["passkey", ["hwk"]],
    ["otp", []],
    ["oauth", []],
  ] as const)("the amr claim describes a sign-in by %s as %j", async ([method, amr], { db }) => {
    const claims: Claims = await createActor(db, {});
    const by = { ...claims, amr: claims.amr.map((entry) => ({ ...entry, method })) };
    expect((await facts(db, by)).amr).toEqual(amr);
  });
});

describe("a redirect URI", () => {
  const registered = [
    "http://127.0.0.1/cb",
    "http://[::1]:8080/cb",
    "http://localhost/cb",
    "https://client.example/cb",
  ];

  test.for([
    ["http://127.0.0.1:51004/cb", true],
    ["http://[::1]/cb", true],
    ["http://127.0.0.1/cb", true],
    ["http://127.0.0.1:51004/other", false],
    ["http://127.0.0.1:510040/cb", false],
    ["http://127.0.0.1:51004@evil.example/cb", false],
    ["http://127.0.0.1.evil.example/cb", false],
    ["https://127.0.0.1:51004/cb", false],
    ["http://localhost:51004/cb", false],
    ["https://client.example:444/cb", false],
  ] as const)("the redirect URI %s of a public client is accepted: %s", async ([uri, allowed], { db }) => {
    const isAllowed = async (isPublic: boolean) => {
      const args = { client_id: await registerClient(db, { isPublic, redirectUris: registered }), scopes: ["openid"] };
      return (await call(db, "open_openid_authorization", { ...args, redirect_uri: uri })).redirectAllowed;
    };
    expect(await isAllowed(true)).toBe(allowed);
    expect(await isAllowed(false)).toBe(registered.includes(uri));
  });
});
