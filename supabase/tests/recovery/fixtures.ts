import { randomBytes, randomUUID } from "node:crypto";
import { hash } from "@node-rs/bcrypt";
import { createActor } from "../actors.ts";
import { createUser, type Database } from "../database.ts";

export type Answer = Record<string, unknown> & { refused?: string; outcome?: string };
type Query = Pick<Database, "query">;

const newHash = () => randomBytes(32).toString("hex");
export const wrongHash = "00".repeat(32);

/** Calls a function that takes one jsonb request. */
export async function ask(db: Query, name: string, request: object): Promise<Answer> {
  const about = { ip: "192.0.2.7", userAgent: "test", requestId: "request-1" };
  const [row] = await db.query<{ answer: Answer }>(`select private.${name}($1) as answer`, [
    JSON.stringify({ ...about, ...request }),
  ]);
  return row?.answer ?? {};
}

export type Setting = { actor: string; userId: string; email: string };

/** Creates an admin, and an account in need of recovery. */
export async function needHelp(db: Database, options: { appMetadata?: object } = {}): Promise<Setting> {
  const { sub: actor } = await createActor(db, {});
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
  const { id: userId, email } = await createUser(db, options);
  return { actor, userId, email };
}

/** Creates a recovery override. */
export async function override(
  db: Query,
  { actor, email, ...options }: { actor: string; email: string; [option: string]: unknown },
): Promise<string> {
  const answer = await ask(db, "create_recovery_override", {
    actor,
    email,
    reason: "locked out",
    normalLogin: true,
    recoveryEmail: true,
    ...options,
  });
  if (typeof answer.overrideId !== "string") throw new Error(JSON.stringify(answer));
  return answer.overrideId;
}

export type Issued = { credentialId: string; tokenHash: string; codeHash: string };

/** Issues a recovery credential under an override. */
export async function issue(db: Query, { actor, overrideId }: { actor: string; overrideId: string }): Promise<Issued> {
  const hashes = { tokenHash: newHash(), codeHash: newHash() };
  const codeSalt = randomBytes(16).toString("hex");
  const answer = await ask(db, "issue_recovery_credential", {
    actor,
    overrideId,
    reason: "asked",
    codeSalt,
    ...hashes,
  });
  if (typeof answer.credentialId !== "string") throw new Error(JSON.stringify(answer));
  return { credentialId: answer.credentialId, ...hashes };
}

/** Backdates the emails of an override, so that its next email can be sent immediately. */
export async function agePastPause(db: Query, overrideId: string): Promise<void> {
  await db.query(
    `update private.recovery_credentials
     set created_at = created_at - private.mail_pause(), expires_at = expires_at - private.mail_pause()
     where override_id = $1`,
    [overrideId],
  );
}

/** Returns the recorded outcomes and their reasons, which are visible nowhere else. */
export async function eventsOf(db: Query, email: string): Promise<string[]> {
  const rows = await db.query<{ event: string }>(
    // All events of one transaction have the same timestamp.
    "select kind || ' ' || outcome as event from private.recovery_events where email = $1 order by ctid",
    [email],
  );
  return rows.map(({ event }) => event);
}

export type Overview = {
  overrides: { id: string; active: boolean; singleUse: boolean; usedAt: string | null; revokedAt: string | null }[];
  locks: ({ kind: string; until: string | null } & Record<string, unknown>)[];
};

/** Returns what the console shows about an email. */
export async function overviewOf(db: Query, email: string): Promise<Overview> {
  const [row] = await db.query<{ overview: Overview }>("select private.recovery_overview($1) as overview", [email]);
  if (!row) throw new Error("no overview");
  return row.overview;
}

/** Gives an account a password, and an age that makes it older than its override. */
export async function setPassword(db: Query, { userId, password }: { userId: string; password: string }) {
  await db.query("update auth.users set encrypted_password = $2, created_at = now() - interval '1 day' where id = $1", [
    userId,
    await hash(password, { cost: 4, version: "2a" }),
  ]);
}

/** Commits an account and an admin that other connections can see. Call `remove` afterwards. */
export async function commitPeople(db: Query): Promise<Setting & { remove(): Promise<void> }> {
  const [actor, userId] = [randomUUID(), randomUUID()];
  for (const id of [actor, userId])
    await db.query(
      "insert into auth.users (id, aud, role, email) values ($1::uuid, 'authenticated', 'authenticated', $1 || '@race.test')",
      [id],
    );
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [actor]);
  const email = `${userId}@race.test`;
  return {
    actor,
    userId,
    email,
    async remove() {
      await db.query("delete from auth.users where id = any ($1)", [[actor, userId]]);
      await db.query("delete from private.recovery_overrides where email = $1", [email]);
      await db.query("delete from private.recovery_code_guesses where email = $1", [email]);
    },
  };
}
