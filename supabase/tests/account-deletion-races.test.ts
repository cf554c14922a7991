import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openPool } from "./ai-fixtures.ts";
import { createUser, type Database, join, one } from "./database.ts";
import { openLine, untilItWaits } from "./race-fixtures.ts";

type Line = Awaited<ReturnType<typeof openLine>>;

/** The two ways for an account to end: its owner's own, and the identity backend's. */
const ways = [
  { way: "by their own wish", role: "service_role", sql: "select private.delete_account($1, 'race')" },
  { way: "by the identity backend", role: "postgres", sql: "delete from auth.users where id = $1" },
] as const;

const remaining = (db: Database, ids: string[]) =>
  db.query<{ id: string }>("select u.id from auth.users u where u.id = any ($1::uuid[])", [ids]);

let owner: ReturnType<typeof openPool>;
let lines: Line[];
beforeEach(() => {
  owner = openPool(1);
  lines = [];
});
afterEach(async () => {
  await Promise.all(lines.map(({ client }) => client.end()));
  await owner.close();
});

async function open(role: "service_role" | "postgres"): Promise<Line> {
  const line = await openLine(role);
  lines.push(line);
  return line;
}

/** A workspace with an id of its own, so that a test knows in which order workspaces are locked. */
async function found(id: string, { founderId }: { founderId: string }): Promise<string> {
  await owner.db.query("insert into public.workspaces (id, name, created_by) values ($1, 'Shared', $2)", [
    id,
    founderId,
  ]);
  return id;
}

/** An id that sorts before those that come after it, and before nearly every random one. */
const idInOrder = (place: number) => `0000000${place}${randomUUID().slice(8)}`;

test.each(ways)("accounts of a founder who left and of who took over end at the same moment, $way", async (ending) => {
  const [founder, heir, third] = [await createUser(owner.db), await createUser(owner.db), await createUser(owner.db)];
  const left = await found(idInOrder(1), { founderId: founder.id });
  await join(owner.db, { workspaceId: left, userId: heir.id, role: "owner" });
  await owner.db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
    left,
    founder.id,
  ]);
  const common = await found(idInOrder(2), { founderId: third.id });
  await join(owner.db, { workspaceId: common, userId: founder.id, role: "viewer" });
  await join(owner.db, { workspaceId: common, userId: heir.id, role: "viewer" });

  const [holder, first, second] = [await open("postgres"), await open(ending.role), await open(ending.role)];
  // The founder's end has begun, and waits at the last of their workspaces.
  await holder.client.query("begin");
  const last = await one<{ id: string }>(holder.db, {
    sql: "select w.id from public.workspaces w where w.personal_user_id = $1 for update",
    values: [founder.id],
  });
  expect(last.id > common).toBe(true);
  const founderEnds = first.client.query(ending.sql, [founder.id]);
  await untilItWaits(owner.db, { work: founderEnds, blocker: holder.pid });
  const heirEnds = second.client.query(ending.sql, [heir.id]);
  await untilItWaits(owner.db, { work: heirEnds, blocker: first.pid });
  await holder.client.query("rollback");

  await Promise.all([founderEnds, heirEnds]);
  expect(await remaining(owner.db, [founder.id, heir.id])).toEqual([]);
  const workspaces = "select w.id from public.workspaces w where w.id = any ($1::uuid[]) and w.deleted_at is null";
  expect(await owner.db.query(workspaces, [[left, common]])).toEqual([{ id: common }]);
});
