import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";

const book = "00000000-0000-0000-0000-000000000000";

async function createServiceAccount(
  db: Database,
  { scopes = ["admin:books"], workspaceId = null }: { scopes?: string[]; workspaceId?: string | null } = {},
): Promise<{ id: string; name: string }> {
  const [row] = await db.query<{ id: string; name: string }>(
    `insert into private.service_accounts (workspace_id, name, scopes, expires_at)
      values ($1, gen_random_uuid()::text, $2, now() + interval '1 day') returning id, name`,
    [workspaceId, scopes],
  );
  if (!row) throw new Error("no service account was created");
  return row;
}

async function createWorkspace(db: Database): Promise<string> {
  const [row] = await db.query<{ id: string }>("insert into public.workspaces (name) values ('W') returning id");
  return row?.id ?? "";
}

/** Calls a function of the platform's book as our server does. */
async function call<Answer>(db: Database, { sql, values }: { sql: string; values: unknown[] }): Promise<Answer> {
  const [row] = await db.asRole("service_role", () => db.query<{ answer: Answer }>(`select ${sql} as answer`, values));
  return row?.answer as Answer;
}

const change = JSON.stringify({ reason: "test", requestId: "request-1", ip: "192.0.2.1" });
const importers = (db: Database, actor: string) =>
  call<object>(db, {
    sql: "private.request_cost_import($1)",
    values: [JSON.stringify({ ...JSON.parse(change), actor, provider: "openai" })],
  });
const statements = (db: Database, { id, of = book }: { id: string; of?: string }) =>
  call<{ outcome: string }>(db, {
    sql: "ai.list_statements($1, $2, '2026-01', null, 5)",
    values: [id, of],
  });

describe("service accounts in the platform's book", () => {
  test("one with the scope for the books may read and change them, and the audit log names it", async ({ db }) => {
    const { id, name } = await createServiceAccount(db);
    expect(await statements(db, { id })).toMatchObject({ outcome: "listed" });
    expect(await importers(db, id)).toEqual({});
    expect(
      await db.query(
        `select actor_id, service_account_id, service_account_name, action
          from private.admin_audit_log where service_account_id = $1`,
        [id],
      ),
    ).toEqual([{ actor_id: null, service_account_id: id, service_account_name: name, action: "costs.request_import" }]);
  });

  test("one without the scope, of a workspace, disabled or expired may not", async ({ db }) => {
    const workspaceId = await createWorkspace(db);
    const wrong = [
      await createServiceAccount(db, { scopes: ["admin:audit:read", "admin:catalogue:write"] }),
      await createServiceAccount(db, { scopes: ["use_ai_studio"], workspaceId }),
      await createServiceAccount(db),
      await createServiceAccount(db),
    ];
    await db.query("update private.service_accounts set enabled = false where id = $1", [wrong[2]?.id]);
    await db.query("update private.service_accounts set expires_at = now() where id = $1", [wrong[3]?.id]);
    for (const { id } of wrong) {
      expect(await statements(db, { id })).toEqual({ outcome: "not_allowed" });
      expect(await importers(db, id)).toEqual({ refused: "forbidden" });
    }
  });

  test("the scope opens no workspace's book", async ({ db }) => {
    const { id } = await createServiceAccount(db);
    const workspaceId = await createWorkspace(db);
    const answer = await call<{ outcome: string }>(db, {
      sql: "ai.list_provider_costs($1, $2)",
      values: [id, workspaceId],
    });
    expect(answer).toEqual({ outcome: "not_allowed" });
  });
});
