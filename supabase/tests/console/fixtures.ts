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

/** Creates an account that its owner confirmed a day ago, so that its owner gets emails. */
export async function createOwned(db: Database) {
  const user = await createUser(db);
  await db.query("update auth.users set email_confirmed_at = now() - interval '1 day' where id = $1", [user.id]);
  await db.query("update public.profiles set created_at = now() - interval '1 day' where id = $1", [user.id]);
  return user;
}
