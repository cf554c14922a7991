import { createUser, type Database } from "../database.ts";

export type ConsoleAnswer = { refused?: string; last?: { actorEmail: string; at: string } | null };
type Change = Record<string, unknown>;

/**
 * Creates an infrastructure admin. `ask` calls a function of the console in the admin's name.
 * @param options.pooled calls as role `postgres`, on a pool's connections; otherwise as our server does
 */
export async function createAdmin(db: Database, { pooled = false } = {}) {
  const { id, ...user } = await createUser(db);
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [id]);
  async function ask(name: string, change: Change): Promise<ConsoleAnswer> {
    const stamped = { actor: id, reason: "test", requestId: "request-1", ip: "192.0.2.1", ...change };
    const call = () =>
      db.query<{ answer: ConsoleAnswer }>(`select private.${name}($1) as answer`, [JSON.stringify(stamped)]);
    const [row] = await (pooled ? call() : db.asRole("service_role", call));
    return row?.answer ?? {};
  }
  return { ...user, id, ask };
}
