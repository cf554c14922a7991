import { createHash, randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createActor } from "../actors.ts";
import { one } from "../database.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import { batchOf, createTenant, type Tenant } from "./fixtures.ts";

type Line = Awaited<ReturnType<typeof openLine>>;

const hash = () => createHash("sha256").update(randomBytes(32)).digest("hex");

let owner: ReturnType<typeof openPool>;
let working: Line;
let deletion: Line;
let other: Line;
let tenant: Tenant;
/** The account that created the tenant's key. */
let maker: string;

beforeEach(async () => {
  owner = openPool(1);
  [working, deletion, other] = [
    await openLine("service_role"),
    await openLine("service_role"),
    await openLine("postgres"),
  ];
  tenant = await createTenant(owner.db, { credits: "100" });
  maker = (await createActor(owner.db, { workspaceId: tenant.workspaceId, role: "admin" })).sub;
  await owner.db.query("update ai.keys k set created_by = $1 where k.id = $2", [maker, tenant.keyId]);
});
afterEach(async () => {
  await Promise.all([working.client.end(), deletion.client.end(), other.client.end()]);
  await owner.close();
});

/**
 * Waits until `work`, which has locked the key's row, is blocked by `other`. Then deletes the account of the key's
 * creator, and rolls `other` back once the deletion is blocked by `work`.
 * @returns the results of `work` and of the deletion
 */
async function deleteAccountBeside<Answer>(work: Promise<Answer>): Promise<[Answer, { deleted: boolean }]> {
  await untilItWaits(owner.db, { work, blocker: other.pid });
  const deleted = one<{ deleted: boolean }>(deletion.db, {
    sql: "select (private.delete_account($1, 'race') ->> 'deleted')::boolean as deleted",
    values: [maker],
  });
  await untilItWaits(owner.db, { work: deleted, blocker: working.pid });
  await other.client.query("rollback");
  return Promise.all([work, deleted]);
}

test("a key is rotated while its creator deletes their account: neither transaction aborts the other", async () => {
  const lookup = randomBytes(6).toString("hex");
  const { workspaceId: elsewhere } = await createTenant(owner.db);
  await other.client.query("begin");
  // The rotation waits for this uncommitted key, which has the same lookup part.
  await other.db.query(
    `insert into ai.keys (lineage_id, workspace_id, name, lookup, secret_hash)
     select gen_random_uuid(), $1, 'Other', $2, decode($3, 'hex')`,
    [elsewhere, lookup, hash()],
  );
  const rotated = one<{ outcome: string }>(working.db, {
    sql: "select ai.rotate_key($1, $2, $3, 0, $4, $5) ->> 'outcome' as outcome",
    values: [tenant.ownerId, tenant.workspaceId, tenant.keyId, lookup, hash()],
  });
  expect(await deleteAccountBeside(rotated)).toEqual([{ outcome: "issued" }, { deleted: true }]);
  const keys = "select created_by, revoked_at is null as alive from ai.keys where workspace_id = $1 order by alive";
  expect(await owner.db.query(keys, [tenant.workspaceId])).toEqual([
    { created_by: null, alive: false },
    { created_by: null, alive: true },
  ]);
});

test("a call can begin while the creator of its API key deletes their account, and both transactions succeed", async () => {
  await other.client.query("begin");
  await other.db.query("select from ai.credit_accounts a where a.workspace_id = $1 for update", [tenant.workspaceId]);
  const call = {
    credential: { source: "key", hash: tenant.keyHash },
    request_id: "race",
    feature: "chat",
    kind: "chat",
    model: tenant.model,
    providers: ["demo"],
    input_bytes: 300,
    output_limit: 100,
    idempotency_key: "race",
    fingerprint: hash(),
  };
  await working.client.query("set role postgres");
  const begun = one<{ began: boolean }>(working.db, {
    sql: "select ai.begin_runs($1)::jsonb -> 0 ? 'run_id' as began",
    values: [batchOf([call])],
  });
  expect(await deleteAccountBeside(begun)).toEqual([{ began: true }, { deleted: true }]);
});
