import pg from "pg";
import { target } from "./target.ts";

const pool = new pg.Pool({ connectionString: target.dbUrl, max: 2, allowExitOnIdle: true });

/** Runs a query. Tests that cannot wait use it to make rows older. */
export async function sql<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
  return (await pool.query<Row>(text, values)).rows;
}

const mailColumns = [
  "confirmation_sent_at",
  "recovery_sent_at",
  "email_change_sent_at",
  "reauthentication_sent_at",
] as const;

/** Backdates the last email of a kind. */
export async function ageMail(email: string, column: (typeof mailColumns)[number], seconds: number): Promise<void> {
  await sql(`update auth.users set ${column} = ${column} - make_interval(secs => $2) where email = $1`, [
    email,
    seconds,
  ]);
}
