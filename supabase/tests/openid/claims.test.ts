import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, createWorkspace } from "../actors.ts";
import { call, newHash } from "../apps/fixtures.ts";
import { type Database, join, one, test } from "../database.ts";

const redirectUri = "https://client.example/callback";
const challenge = "c".repeat(43);

interface Given {
  /** The client's registration. */
  registered?: string[];
  claimsInIdToken?: boolean;
  groupsWorkspaceId?: string | null;
  /** The request. */
  scopes?: string[];
  idToken?: string[];
  userinfo?: string[];
}

/** Signs a person in to a client. @returns the names of the claims in the ID token and at userinfo, and their values */
async function signInAt(db: Database, claims: { sub: string }, given: Given) {
  const { registered = ["profile", "workspaces:read"], claimsInIdToken = false, groupsWorkspaceId = null } = given;
  const name = `client-${randomBytes(8).toString("hex")}`;
  await db.query(
    `with app as (
       insert into private.apps (name, display_name, kind, scopes) values ($1, 'Charts', 'openid', $2) returning id
     )
     insert into private.openid_clients (app_id, is_public, redirect_uris, claims_in_id_token, groups_workspace_id)
     select id, true, array[$3], $4, $5 from app`,
    [name, registered, redirectUri, claimsInIdToken, groupsWorkspaceId],
  );
  const [codeHash, accessHash] = [newHash(), newHash()];
  const issued = await call(db, "issue_authorization_code", {
    claims,
    client_id: name,
    redirect_uri: redirectUri,
    scopes: given.scopes ?? ["openid"],
    nonce: null,
    code_challenge: challenge,
    code_hash: codeHash,
    consents: true,
    id_token_claims: given.idToken ?? [],
    userinfo_claims: given.userinfo ?? [],
  });
  const redeemed = await call(db, "redeem_authorization_code", {
    ...{
      client_id: name,
      secret_hash: null,
      code_hash: codeHash,
      redirect_uri: redirectUri,
      code_challenge: challenge,
    },
    ...{ access_hash: accessHash, refresh_hash: newHash() },
  });
  const { sub, ...userinfo } = await call(db, "read_openid_userinfo", { access_hash: accessHash });
  const { consented } = await one<{ consented: string[] }>(db, {
    sql: `select c.scopes as consented from private.openid_consents c join private.apps a on a.id = c.app_id
          where a.name = $1`,
    values: [name],
  });
  expect(sub).toBe(claims.sub);
  return {
    idToken: redeemed.claims as Record<string, unknown>,
    userinfo: userinfo as Record<string, unknown>,
    granted: issued.scopes,
    consented,
    client: name,
    accessHash,
  };
}

const names = (claims: Record<string, unknown>) => Object.keys(claims).toSorted();
const [profile, email] = [
  ["name", "updated_at"],
  ["email", "email_verified"],
];
const both = [...profile, ...email, "preferred_username"].toSorted();

// OpenID Connect Core 1.0 sections 5.4 and 5.5.
describe("the claims about a person", () => {
  test.for<[Given, { idToken?: string[]; userinfo?: string[] }]>([
    [{}, {}],
    [{ scopes: ["openid", "profile"] }, { userinfo: profile }],
    [{ scopes: ["openid", "email"] }, { userinfo: email }],
    [{ scopes: ["openid", "profile", "email"] }, { userinfo: both }],
    [
      { scopes: ["openid", "profile", "email"], claimsInIdToken: true },
      { idToken: both, userinfo: both },
    ],
    [{ scopes: ["openid"], claimsInIdToken: true }, {}],
    [{ idToken: ["email"] }, { idToken: ["email"] }],
    [{ userinfo: ["email"] }, { userinfo: ["email"] }],
    [
      { idToken: ["preferred_username", "acr", "unknown"], userinfo: ["name"] },
      { idToken: ["preferred_username"], userinfo: ["name"] },
    ],
    [
      { scopes: ["openid", "profile"], idToken: ["email"] },
      { idToken: ["email"], userinfo: profile },
    ],
    [
      {
        registered: ["workspaces:read"],
        scopes: ["openid", "profile"],
        idToken: ["email", "name"],
        userinfo: ["email"],
      },
      {},
    ],
    [{ registered: ["workspaces:read"], scopes: ["openid", "email"], claimsInIdToken: true }, {}],
  ])("of the request %j are %j", async ([given, { idToken = [], userinfo = [] }], { db }) => {
    const found = await signInAt(db, await createActor(db, {}), given);
    expect([names(found.idToken), names(found.userinfo)]).toEqual([idToken, userinfo]);
  });

  test("have the types of OpenID Connect Core 1.0 section 5.1", async ({ db }) => {
    const claims = await createActor(db, {});
    const { idToken } = await signInAt(db, claims, { scopes: ["openid", "profile", "email"], claimsInIdToken: true });
    const account = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [claims.sub],
    });
    expect(idToken).toEqual({
      name: expect.any(String),
      updated_at: expect.any(Number),
      preferred_username: account.email,
      email: account.email,
      email_verified: expect.any(Boolean),
    });
  });

  test("a requested claim needs consent to its scope, but doesn't grant the scope", async ({ db }) => {
    const { granted, consented } = await signInAt(db, await createActor(db, {}), {
      idToken: ["email"],
      userinfo: ["name"],
    });
    expect([granted, consented]).toEqual([["openid"], ["email", "openid", "profile"]]);
  });

  test("don't come into a login when the client is registered for them later", async ({ db }) => {
    const { client, accessHash, consented } = await signInAt(db, await createActor(db, {}), {
      registered: [],
      idToken: ["email"],
      userinfo: ["email", "name"],
    });
    expect(consented).toEqual(["openid"]);
    await db.query("update private.apps set scopes = '{profile}' where name = $1", [client]);
    expect(names(await call(db, "read_openid_userinfo", { access_hash: accessHash }))).toEqual(["sub"]);
    const stored = "select id_token_claims || userinfo_claims as claims from private.openid_grants g";
    const ofClient = "join private.apps a on a.id = g.app_id where a.name = $1";
    expect(await db.query(`${stored} ${ofClient}`, [client])).toEqual([{ claims: [] }]);
  });
});

describe("the claim groups", () => {
  test.for<["admin" | "outsider", Given, string[] | undefined]>([
    ["admin", { scopes: ["openid", "workspaces:read"] }, ["admin"]],
    ["admin", { scopes: ["openid"], userinfo: ["groups"] }, ["admin"]],
    ["outsider", { scopes: ["openid", "workspaces:read"] }, []],
    ["admin", { scopes: ["openid", "profile", "email"] }, undefined],
    ["admin", { registered: ["profile"], scopes: ["openid", "workspaces:read"], userinfo: ["groups"] }, undefined],
  ])("of %s for the request %j is %j", async ([role, given, groups], { db }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId, role });
    // The role in any other workspace is not a group: the person may have founded it.
    await join(db, { workspaceId: (await createWorkspace(db)).id, userId: claims.sub, role: "owner" });
    const { userinfo } = await signInAt(db, claims, { ...given, groupsWorkspaceId: workspaceId });
    expect(userinfo.groups).toEqual(groups);
  });

  test("is absent if the client has no workspace for groups, and empty if the workspace was deleted", async ({
    db,
  }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId, role: "admin" });
    const request = { scopes: ["openid", "workspaces:read"] };
    expect((await signInAt(db, claims, request)).userinfo).not.toHaveProperty("groups");
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspaceId]);
    expect((await signInAt(db, claims, { ...request, groupsWorkspaceId: workspaceId })).userinfo.groups).toEqual([]);
  });
});

describe("an essential acr (OpenID Connect Core 1.0 section 5.5.1.1)", () => {
  test.for([
    ["no policy and no factor", null, "aal1"],
    ["no policy and no factor", ["aal1", "aal2"], "aal1"],
    ["no policy and no factor", ["aal2"], null],
    ["no policy and no factor", ["phr"], null],
    ["no policy and no factor", [], null],
    ["a factor, at AAL2", null, "aal2"],
    ["a factor, at AAL2", ["aal2"], "aal2"],
    ["a factor, at AAL2", ["aal1"], "aal1"],
    ["a factor, at AAL2", ["phr"], null],
  ] as const)("of a session with %s that must be one of %j is %s", async ([mfa, essential, acr], { db }) => {
    const claims = await createActor(db, { mfa });
    const name = `client-${randomBytes(8).toString("hex")}`;
    await db.query(
      `with app as (
         insert into private.apps (name, display_name, kind, scopes) values ($1, 'Charts', 'openid', '{}') returning id
       )
       insert into private.openid_clients (app_id, is_public, redirect_uris) select id, true, array[$2] from app`,
      [name, redirectUri],
    );
    const request = {
      claims,
      client_id: name,
      redirect_uri: redirectUri,
      scopes: ["openid"],
      essential_acr: essential,
    };
    const opened = await call<{ session: { acr: string | null } }>(db, "open_openid_authorization", request);
    expect(opened.session.acr).toBe(acr);
    const codeHash = newHash();
    const issued = await call(db, "issue_authorization_code", {
      ...request,
      ...{ nonce: null, code_challenge: challenge, code_hash: codeHash, consents: true },
    });
    expect(issued.refused).toBe(acr === null ? "acr" : undefined);
    const code = await db.query("select (authentication).acr from private.authorization_codes where code_hash = $1", [
      codeHash,
    ]);
    expect(code).toEqual(acr === null ? [] : [{ acr }]);
  });
});
