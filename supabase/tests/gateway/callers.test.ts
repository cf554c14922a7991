import { describe, expect } from "vitest";
import { createActor, mfaStates, workspaceRoles } from "../actors.ts";
import { type App, call, registerApp, setPolicy } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import {
  begin,
  books,
  chatCall,
  checkCredential,
  createTenant,
  outcome,
  runRow,
  settle,
  type Tenant,
} from "./fixtures.ts";

function link(db: Database, app: App, tenant: Tenant, linked: boolean) {
  return call(db, "set_app_workspace", {
    app_name: app.name,
    workspace_id: tenant.workspaceId,
    linked,
    reason: "test",
  });
}

/** Calls one of the gateway's read functions and returns its answer. */
async function readAs(db: Database, name: string, call: object): Promise<unknown> {
  const sql = `select ai.${name}($1) as answer`;
  const row = await db.asRole("gateway", () => one<{ answer: unknown }>(db, { sql, values: [JSON.stringify(call)] }));
  return row.answer;
}

describe("a person's own session", () => {
  test.for(workspaceRoles)(
    "a $role's session may make calls if and only if that role may use the studio",
    async ({ role, permissions }, { db }) => {
      const tenant = await createTenant(db, { credits: "100" });
      const claims = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const answer = await begin(db, sessionCall(tenant, claims));
      if (permissions.some((permission) => permission === "use_ai_studio"))
        expect(answer).not.toHaveProperty("refused");
      else expect(answer).toMatchObject({ refused: "insufficient_scope" });
    },
  );

  const refusals: Record<string, string> = {
    "session over": "invalid_api_key",
    "malformed policy": "AUTH_UNAVAILABLE",
  };
  test.for(mfaStates)(
    "a session may call the gateway only if its MFA requirement is met: $mfa",
    async ({ mfa, satisfied }, { db }) => {
      const tenant = await createTenant(db, { credits: "100" });
      const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member", mfa });
      const answer = await begin(db, sessionCall(tenant, claims));
      if (satisfied) expect(answer).not.toHaveProperty("refused");
      else expect(answer).toEqual({ refused: refusals[mfa] ?? "MFA_REQUIRED" });
    },
  );

  test("a session's call must name its workspace, and the refusal does not reveal whether another workspace exists", async ({
    db,
  }) => {
    const [tenant, other] = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "owner" });
    const nowhere = "00000000-0000-0000-0000-000000000000";
    expect(await begin(db, sessionCall(tenant, claims, { workspace: undefined }))).toEqual({
      refused: "workspace_header_required",
    });
    for (const workspace of [other.workspaceId, nowhere]) {
      expect(await begin(db, sessionCall(tenant, claims, { workspace }))).toMatchObject({
        refused: "insufficient_scope",
      });
    }
  });

  test("refuses the session of a banned account as unknown", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    await db.query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [claims.sub]);
    expect(await begin(db, sessionCall(tenant, claims))).toEqual({ refused: "invalid_api_key" });
  });

  test("a session's calls are charged, and their runs name the session as their credential", async ({ db }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "1" });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    await db.query("select ai.grant_credits('member', $1, 100, 'test')", [claims.sub]);
    const run = await begin(db, sessionCall(tenant, claims));
    await settle(db, [outcome(run)]);
    expect(await books(db, { ...tenant, ownerId: claims.sub })).toMatchObject({ balance: "99.93850000" });
    const row = await one(db, {
      sql: "select credential_source, execution_mode, actor_id, key_id, app_id, exempt from ai.runs where id = $1",
      values: [run.run_id],
    });
    expect(row).toEqual({
      credential_source: "session",
      execution_mode: "interactive",
      actor_id: claims.sub,
      key_id: null,
      app_id: null,
      exempt: false,
    });
  });
});

describe("an app's token", () => {
  test("a call with an app's token is made for the token's user, is not billed, and records what it would have cost", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "0.001" });
    const { app, claims, callOf } = await appTokenCall(db, tenant);
    const run = await begin(db, callOf());
    expect(run).toMatchObject({ exempt: true, cost_visible: true, reserved_credits: "0.00000000" });
    await settle(db, [outcome(run)]);
    expect(await runRow(db, run)).toMatchObject({
      cost_usd: "0.000006150000",
      billed_credits: "0.00000000",
      unmetered_credits: "0.06150000",
    });
    expect(await books(db, tenant)).toMatchObject({ balance: "0.00100000", used: "0.00000000" });
    const row = await one(db, {
      sql: "select credential_source, execution_mode, actor_id, app_id from ai.runs where id = $1",
      values: [run.run_id],
    });
    expect(row).toEqual({
      credential_source: "app_token",
      execution_mode: "interactive",
      actor_id: claims.sub,
      app_id: app.id,
    });
  });

  test("a call with an app's token must name the token's workspace in the header", async ({ db }) => {
    const tenant = await createTenant(db);
    const other = await createTenant(db);
    const { callOf } = await appTokenCall(db, tenant);
    expect(await begin(db, callOf({ workspace: undefined }))).toEqual({ refused: "workspace_header_required" });
    expect(await begin(db, callOf({ workspace: other.workspaceId }))).toEqual({ refused: "workspace_mismatch" });
  });

  test("an app's token and the app's registration must both allow ai:use for calls and tts:use for speech", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    const speech = { kind: "speech", model: "demo-speech", providers: ["demo_speech"] };
    const granted = "insert into ai.model_grants (model_id, plan_id) values ('demo-speech', $1)";
    await db.query(granted, [tenant.planId]);
    const whole = await appTokenCall(db, tenant);
    expect(await begin(db, whole.callOf(speech))).not.toHaveProperty("refused");
    const text = await appTokenCall(db, tenant, { scopes: ["workspace:session", "ai:use"] });
    expect(await begin(db, text.callOf())).not.toHaveProperty("refused");
    expect(await begin(db, text.callOf(speech))).toMatchObject({ refused: "insufficient_scope" });
    // Refused before the input is read.
    expect(await checkCredential(db, text.callOf(speech))).toMatchObject({ refused: "insufficient_scope" });
    expect(await checkCredential(db, text.callOf())).toEqual({ workspace_id: tenant.workspaceId });
    expect(await checkCredential(db, whole.callOf(speech))).toEqual({ workspace_id: tenant.workspaceId });
    await db.query("update private.apps set scopes = '{workspace:session,tts:use}' where id = $1", [whole.app.id]);
    expect(await begin(db, whole.callOf())).toMatchObject({ refused: "insufficient_scope" });
  });

  test("refuses an app's token while the app is unlinked, or when the token's user lacks required MFA or has left the workspace", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    const { app, claims, callOf } = await appTokenCall(db, tenant);
    await link(db, app, tenant, false);
    expect(await begin(db, callOf())).toMatchObject({ refused: "app_not_allowed" });
    await link(db, app, tenant, true);
    expect(await begin(db, callOf())).not.toHaveProperty("refused");
    await setPolicy(db, { userId: claims.sub, policy: { required: true, boundary: 1, generation: 2 } });
    expect(await begin(db, callOf())).toEqual({ refused: "invalid_api_key" });
    await setPolicy(db, { userId: claims.sub, policy: null });
    await db.query("delete from public.workspace_members where user_id = $1 and workspace_id = $2", [
      claims.sub,
      tenant.workspaceId,
    ]);
    expect(await begin(db, callOf())).toMatchObject({ refused: "app_not_allowed" });
  });

  test("an app's token stops working permanently when the app's registration is deleted", async ({ db }) => {
    const tenant = await createTenant(db);
    const { app, callOf } = await appTokenCall(db, tenant);
    await db.query("update private.apps set enabled = false where id = $1", [app.id]);
    expect(await begin(db, callOf())).toEqual({ refused: "invalid_api_key" });
  });

  test("refuses an app's token as unknown once it is revoked or expired", async ({ db }) => {
    const tenant = await createTenant(db);
    const { app, callOf } = await appTokenCall(db, tenant);
    await db.query("update ai.app_tokens set expires_at = now() where app_id = $1", [app.id]);
    expect(await begin(db, callOf())).toEqual({ refused: "invalid_api_key" });
    await db.query(
      "update ai.app_tokens set expires_at = now() + interval '1 second', revoked_at = now() where app_id = $1",
      [app.id],
    );
    expect(await begin(db, callOf())).toEqual({ refused: "invalid_api_key" });
  });
});

describe("a key that is bound to an app", () => {
  test("a key bound to an app is not billed, and works only while the app is registered, enabled and linked", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const app = await bindKey(db, tenant);
    const run = await begin(db, chatCall(tenant));
    expect(run).toMatchObject({ exempt: true, reserved_credits: "0.00000000" });
    await settle(db, [outcome(run)]);
    expect(await runRow(db, run)).toMatchObject({ billed_credits: "0.00000000", unmetered_credits: "0.06150000" });
    await link(db, app, tenant, false);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "app_not_allowed" });
    await link(db, app, tenant, true);
    await db.query("update private.apps set enabled = false where id = $1", [app.id]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "app_not_allowed" });
  });

  test.for([
    ["ai:use", "{workspace:session,tts:use}"],
    ["workspace:session", "{ai:use,tts:use}"],
    ["every scope", "{}"],
  ])(
    "an app's token and the keys bound to the app are refused after the app's registration loses %s",
    async ([, left], { db }) => {
      const tenant = await createTenant(db, { credits: "100" });
      const { app, callOf } = await appTokenCall(db, tenant);
      await db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
      expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
      await db.query("update private.apps set scopes = $2 where id = $1", [app.id, left]);
      const refused = { refused: "insufficient_scope", missing: expect.objectContaining({ kind: "scope" }) };
      for (const one of [chatCall(tenant), callOf()]) {
        expect(await begin(db, one)).toEqual(refused);
        expect(await checkCredential(db, one)).toEqual(refused);
        expect(await readAs(db, "describe_credential", one)).toEqual(refused);
        expect(await readAs(db, "list_models", one)).toEqual(refused);
      }
      expect(await readAs(db, "check_app_caller", callOf())).toEqual(refused);
      // An import uses no model.
      expect(await readAs(db, "check_app_caller", chatCall(tenant, { workspace: tenant.workspaceId }))).toEqual(
        left?.includes("workspace:session") ? { workspace_id: tenant.workspaceId } : refused,
      );
      await db.query("update private.apps set scopes = '{workspace:session,ai:use}' where id = $1", [app.id]);
      expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
    },
  );

  test("a key bound to an app may use speech only while the app's registration has the scope tts:use", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const { app } = await appTokenCall(db, tenant);
    await db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
    await db.query("insert into ai.model_grants (model_id, plan_id) values ('demo-speech', $1)", [tenant.planId]);
    const speech = chatCall(tenant, { kind: "speech", model: "demo-speech", providers: ["demo_speech"] });
    expect(await begin(db, speech)).not.toHaveProperty("refused");
    expect(await readAs(db, "describe_credential", chatCall(tenant))).toMatchObject({
      scopes: ["ai:use", "tts:use", "workspace:session"],
    });
    await db.query("update private.apps set scopes = '{workspace:session,ai:use}' where id = $1", [app.id]);
    expect(await begin(db, speech)).toMatchObject({ refused: "insufficient_scope" });
    expect(await checkCredential(db, speech)).toMatchObject({ refused: "insufficient_scope" });
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
  });

  test("refuses a key of an internal satellite", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const app = await registerApp(db);
    await db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "app_not_allowed" });
  });

  test("an app's budget limits a key bound to the app, and the unused part of the key's reservation is released", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "0", prices: { input: "1", output: "1" } });
    const app = await bindKey(db, tenant);
    await db.query(
      "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('app', $1, $2, 0.0002)",
      [app.id, tenant.workspaceId],
    );
    const run = await begin(db, chatCall(tenant));
    expect(run).not.toHaveProperty("refused");
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "budget_exceeded", frees: true });
    await settle(db, [outcome(run)]);
    const budget = await one(db, {
      sql: "select spent_usd::text as spent, reserved_usd::text as reserved from ai.budgets where subject_id = $1",
      values: [app.id],
    });
    expect(budget).toEqual({ spent: "0.000020000000", reserved: "0.000000000000" });
  });
});
