import { Client } from "pg";
import { readStack } from "../../scripts/test/stack.ts";
import { openPools } from "./apps/fixtures.ts";
import { type Database, one } from "./database.ts";

/** The role of a connection. */
export type LineRole = "service_role" | "postgres";

/** Opens a connection whose transaction the test controls, as the service role or as the identity backend. */
export async function openLine(role: LineRole): Promise<{ db: Database; client: Client; pid: number }> {
  const url = new URL(readStack().supabase.dbUrl);
  if (role !== "postgres") url.searchParams.set("options", `-c role=${role}`);
  const client = new Client({ connectionString: url.href });
  await client.connect();
  const db: Database = {
    query: async (sql, values) => (await client.query(sql, values)).rows,
    asUser: () => Promise.reject(new Error("a line takes no role")),
    asRole: (_, work) => work(),
  };
  const { pid } = await one<{ pid: number }>(db, { sql: "select pg_backend_pid() as pid" });
  return { db, client, pid };
}

/** Waits until the connection `blocker` blocks another connection, or until `work` is done. */
export async function untilItWaits(
  db: Database,
  { work, blocker }: { work: Promise<unknown>; blocker: number },
): Promise<void> {
  let through = false;
  const done = work.then(() => {
    through = true;
  });
  while (!through) {
    const waiting = await db.query("select from pg_stat_activity where $1::integer = any (pg_blocking_pids(pid))", [
      blocker,
    ]);
    if (waiting.length > 0) return;
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 10))]);
  }
}

/**
 * Creates a scene and runs two overlapping transactions: `early` stays open until `late` waits for it. Then runs
 * `after`.
 */
export async function race<Scene>({
  scene,
  early,
  late,
  lateRole = "service_role",
  after,
}: {
  scene: (db: Database, service: Database) => Promise<Scene & { userId: string }>;
  early: (line: Database, scene: Scene) => Promise<unknown>;
  late: (line: Database, scene: Scene) => Promise<unknown>;
  lateRole?: LineRole;
  after: (db: Database, outcome: { scene: Scene; answer: unknown }) => Promise<void>;
}): Promise<void> {
  const { db, service, close } = openPools(2);
  const [first, second] = [await openLine("service_role"), await openLine(lateRole)];
  const set = await scene(db, service);
  try {
    await first.client.query("begin");
    await early(first.db, set);
    const answer = late(second.db, set);
    await untilItWaits(db, { work: answer, blocker: first.pid });
    await first.client.query("commit");
    await after(service, { scene: set, answer: await answer });
  } finally {
    await first.client.query("rollback");
    await db.query("delete from auth.users where id = $1", [set.userId]);
    await Promise.all([first.client.end(), second.client.end(), close()]);
  }
}
