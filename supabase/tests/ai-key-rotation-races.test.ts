import { createHash, randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createActor } from "./actors.ts";
import { createTenant, openPool, type Tenant } from "./ai-fixtures.ts";
import { one } from "./database.ts";
import { openLine, untilItWaits } from "./race-fixtures.ts";

type Line = Awaited<ReturnType<typeof openLine>>;

const hash = () => createHash("sha256").update(randomBytes(32)).digest("hex");

let owner: ReturnType<typeof openPool>;
let rotation: Line;
let deletion: Line;
let other: Line;
let tenant: Tenant;

beforeEach(async () => {
  owner = openPool(1);
  [rotation, deletion, other] = [
    await openLine("service_role"),
    await openLine("service_role"),
    await openLine("postgres"),
  ];
  tenant = await createTenant(owner.db);
});
afterEach(async () => {
  await Promise.all([rotation.client.end(), deletion.client.end(), other.client.end()]);
  await owner.close();
});

test("a key is rotated while who made it deletes their account: neither ends the other", async () => {
  const { sub: maker } = await createActor(owner.db, { workspaceId: tenant.workspaceId, role: "admin" });
  await owner.db.query("update ai.keys k set created_by = $1 where k.id = $2", [maker, tenant.keyId]);
  // A key of the same lookup part that may yet come to be holds up the rotation once it has its own key.
  const lookup = randomBytes(6).toString("hex");
  await other.client.query("begin");
  await other.db.query(
    `insert into ai.keys (lineage_id, workspace_id, name, lookup, secret_hash)
     select gen_random_uuid(), $1, 'Other', $2, decode($3, 'hex')`,
    [(await createTenant(owner.db)).workspaceId, lookup, hash()],
  );
  const rotated = one<{ outcome: string }>(rotation.db, {
    sql: "select ai.rotate_key($1, $2, $3, 0, $4, $5) ->> 'outcome' as outcome",
    values: [tenant.ownerId, tenant.workspaceId, tenant.keyId, lookup, hash()],
  });
  await untilItWaits(owner.db, { work: rotated, blocker: other.pid });
  const deleted = one<{ deleted: boolean }>(deletion.db, {
    sql: "select (private.delete_account($1, 'race') ->> 'deleted')::boolean as deleted",
    values: [maker],
  });
  await untilItWaits(owner.db, { work: deleted, blocker: rotation.pid });
  await other.client.query("rollback");
  expect(await Promise.all([rotated, deleted])).toEqual([{ outcome: "issued" }, { deleted: true }]);
  const keys = "select created_by, revoked_at is null as alive from ai.keys where workspace_id = $1 order by alive";
  expect(await owner.db.query(keys, [tenant.workspaceId])).toEqual([
    { created_by: null, alive: false },
    { created_by: null, alive: true },
  ]);
});
