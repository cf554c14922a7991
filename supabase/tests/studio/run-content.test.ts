import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { begin, chatCall, createTenant, type OpenedRun, outcome, settle, type Tenant } from "../gateway/fixtures.ts";

const fingerprint = "ab".repeat(32);
const said = { prompt: '{"messages":[]}', answer: '{"choices":[]}' };

async function setPolicy(db: Database, { workspaceId }: Tenant, capture: boolean, days = 30): Promise<void> {
  await db.query(
    `insert into ai.workspace_policies (workspace_id, content_capture, content_retention_days) values ($1, $2, $3)
     on conflict (workspace_id) do update set content_capture = $2, content_retention_days = $3`,
    [workspaceId, capture, days],
  );
}

async function keep(db: Database, run: OpenedRun, content: object = said): Promise<void> {
  const { created_at, run_id: id } = run;
  await db.query("select ai.store_run_content($1)", [JSON.stringify({ created_at, id, ...content })]);
}

/** Waits for a clean-up that the stack's own server may be running, then deletes expired content. */
async function sweep(db: Database): Promise<unknown> {
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0))");
  const [row] = await db.query("select ai.delete_expired_content() as swept");
  return row?.swept;
}

const contentOf = (db: Database, run: OpenedRun) =>
  db.query("select prompt, tools, answer from ai.run_content where run_id = $1", [run.run_id]);

describe("run content", () => {
  test("stores content only if the workspace captures it", async ({ db }) => {
    const [with_, without] = [await createTenant(db, { credits: "9" }), await createTenant(db, { credits: "9" })];
    await setPolicy(db, with_, true);
    const [kept, dropped] = [await begin(db, chatCall(with_)), await begin(db, chatCall(without))];
    expect([kept, dropped]).toMatchObject([{ capture: true }, { capture: false }]);
    await keep(db, kept);
    await keep(db, dropped);
    expect(await contentOf(db, kept)).toEqual([{ ...said, tools: null }]);
    expect(await contentOf(db, dropped)).toEqual([]);
  });

  test("stores no content for a run that was in progress when capture was switched off", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "9" });
    await setPolicy(db, tenant, true);
    const run = await begin(db, chatCall(tenant));
    await setPolicy(db, tenant, false);
    await keep(db, run);
    expect(await contentOf(db, run)).toEqual([]);
  });

  test("stores content in parts, in any order, and never overwrites stored parts", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "9" });
    await setPolicy(db, tenant, true);
    const run = await begin(db, chatCall(tenant));
    await keep(db, run, { answer: said.answer, tools: "[]" });
    await keep(db, run, { prompt: said.prompt });
    await keep(db, run, { prompt: "other", answer: "other" });
    expect(await contentOf(db, run)).toEqual([{ ...said, tools: "[]" }]);
  });

  test("deletes a run's content as soon as the retention period has passed, and keeps the run", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "9" });
    await setPolicy(db, tenant, true, 2);
    const [young, old] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await keep(db, young);
    await keep(db, old);
    const age = (run: OpenedRun, seconds: number) =>
      db.query(
        "update ai.run_content set run_created_at = now() - interval '2 days' - $2 * interval '1 second' where run_id = $1",
        [run.run_id, seconds],
      );
    await age(young, 0);
    await age(old, 1);
    expect(await sweep(db)).toBe(1);
    expect(await contentOf(db, young)).toHaveLength(1);
    expect(await contentOf(db, old)).toEqual([]);
    expect(await db.query("select from ai.runs where id = $1", [old.run_id])).toHaveLength(1);
  });

  test("a sweep deletes a run's content after retention is shortened or the workspace is deleted", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "9" });
    await setPolicy(db, tenant, true, 30);
    const run = await begin(db, chatCall(tenant));
    await keep(db, run);
    await db.query("update ai.run_content set run_created_at = now() - interval '10 days' where run_id = $1", [
      run.run_id,
    ]);
    await sweep(db);
    expect(await contentOf(db, run)).toHaveLength(1);
    await setPolicy(db, tenant, true, 7);
    await sweep(db);
    expect(await contentOf(db, run)).toEqual([]);
    await keep(db, run);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    await sweep(db);
    expect(await contentOf(db, run)).toEqual([]);
    await keep(db, run);
    expect(await contentOf(db, run)).toEqual([]);
  });

  test("users can't read a run's content, and only the content functions can write it", async ({ db }) => {
    const may = "select has_table_privilege($1, 'ai.run_content', $2) as may";
    for (const role of ["anon", "authenticated", "gateway"]) {
      expect(await db.query(may, [role, "select"])).toEqual([{ may: false }]);
    }
    for (const right of ["insert", "update", "delete"]) {
      expect(await db.query(may, ["service_role", right])).toEqual([{ may: false }]);
    }
  });
});

describe("an idempotency key", () => {
  test("an idempotency key returns the stored answer only to the same caller with the same body", async ({ db }) => {
    const [tenant, other] = [await createTenant(db, { credits: "1000" }), await createTenant(db, { credits: "1000" })];
    await setPolicy(db, tenant, true);
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint });
    const run = await begin(db, call);
    await keep(db, run);
    expect(await begin(db, call)).toEqual({ refused: "request_in_progress" });
    await settle(db, [outcome(run)]);
    expect(await begin(db, call)).toMatchObject({ refused: "idempotency_key_used", answer: said.answer });
    expect(await begin(db, { ...call, fingerprint: "cd".repeat(32) })).toEqual({ refused: "idempotency_key_reused" });
    expect(await begin(db, chatCall(other, { idempotency_key: "k", fingerprint }))).not.toHaveProperty("refused");
  });

  test("an idempotency key expires after 24 hours", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await begin(db, chatCall(tenant, { idempotency_key: "old", fingerprint }));
    await begin(db, chatCall(tenant, { idempotency_key: "new", fingerprint }));
    await db.query("update ai.idempotency_keys set expires_at = now() - interval '1 second' where key = 'old'");
    await sweep(db);
    const left = "select key from ai.idempotency_keys where workspace_id = $1";
    expect(await db.query(left, [tenant.workspaceId])).toEqual([{ key: "new" }]);
  });
});
