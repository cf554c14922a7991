import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { sessionCall } from "../gateway/call-fixtures.ts";
import { begin, chatCall, createTenant, type Tenant } from "../gateway/fixtures.ts";

type Details = { limit?: Record<string, unknown>; missing?: object };

/** Refuses a call and records it, as the gateway does. @returns the error's members, as the caller got them */
async function refuse(db: Database, call: object, status = 402): Promise<Details> {
  const {
    refused: code,
    limits: _,
    at: __,
    frees: ___,
    ...details
  } = (await begin(db, call)) as Details & {
    refused: string;
    limits?: object;
    at?: string;
    frees?: boolean;
  };
  const { credential, workspace } = call as { credential: object; workspace?: string };
  const facts = {
    request_id: "r",
    endpoint: "/v1/chat/completions",
    feature: "chat",
    status,
    code,
    details,
    age_ms: 0,
  };
  const callers = [{ credential, workspace, age_ms: 0, calls: [facts], counts: [{ code, count: 1 }] }];
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.record_refused_calls', 0))");
  await db.query("select ai.record_refused_calls($1)", [JSON.stringify({ callers })]);
  return details;
}

/** Returns the details of the workspace's refused call, as a member sees them in the list and on its page. */
async function detailsFor(db: Database, { workspaceId }: Pick<Tenant, "workspaceId">, memberId: string) {
  return db.asRole("service_role", async () => {
    const { answer } = await one<{ answer: { calls: { id: string; details: Details | null }[] } }>(db, {
      sql: "select ai.list_refused_calls($1, $2, '{}', null, 50, 100) as answer",
      values: [memberId, workspaceId],
    });
    const [call] = answer.calls;
    const { read } = await one<{ read: { details: Details | null } }>(db, {
      sql: "select ai.read_refused_call($1, $2, $3) as read",
      values: [memberId, workspaceId, call?.id],
    });
    expect(read.details).toEqual(call?.details);
    return call?.details;
  });
}

describe("the details of a refused call", () => {
  test("show a member's own balance to that member only", async ({ db }) => {
    const tenant = await createTenant(db, {
      payer: "member",
      initialCredits: "1.5",
      prices: { input: "1", output: "1" },
    });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const details = await refuse(db, sessionCall(tenant, claims));
    expect(details.limit).toMatchObject({ kind: "balance", remaining_credits: 1.5 });
    expect(await detailsFor(db, tenant, claims.sub)).toEqual(details);
    const other = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    expect(await detailsFor(db, tenant, other.sub)).toEqual({
      limit: { kind: "balance", payer: "member", is_caller: true },
    });
    expect(await detailsFor(db, tenant, tenant.ownerId)).toEqual(await detailsFor(db, tenant, other.sub));
  });

  test("show the workspace's balance to its members", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1", prices: { input: "1", output: "1" } });
    const details = await refuse(db, chatCall(tenant));
    const { sub } = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    expect(await detailsFor(db, tenant, sub)).toEqual(details);
  });

  test("show a key's budget and a caller's address to those who see budgets of keys", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "1000",
      key: { monthlyBudgetUsd: "0.0001" },
      prices: { input: "1", output: "1" },
    });
    const details = await refuse(db, chatCall(tenant));
    const { sub } = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const admin = await createActor(db, { workspaceId: tenant.workspaceId, role: "admin" });
    expect(await detailsFor(db, tenant, admin.sub)).toEqual(details);
    const shown = await detailsFor(db, tenant, sub);
    expect(shown?.limit).toMatchObject({ kind: "budget", scope: "key", name: "test" });
    expect(JSON.stringify(shown)).not.toContain("usd");

    // Both calls have the transaction's time.
    await db.query("delete from ai.refused_calls where workspace_id = $1", [tenant.workspaceId]);
    await db.query("update ai.keys set allowed_addresses = '{192.0.2.1/32}' where id = $1", [tenant.keyId]);
    const missing = await refuse(db, chatCall(tenant, { address: "203.0.113.7" }), 403);
    expect(missing).toEqual({ missing: { kind: "address", address: "203.0.113.7" } });
    expect(await detailsFor(db, tenant, admin.sub)).toEqual(missing);
    expect(await detailsFor(db, tenant, sub)).toBeNull();
  });
});
