import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";

async function keep(
  db: Database,
  { due = "1 second", age = "1 hour", attempts = 1, recipient = "a@example.test" } = {},
): Promise<string> {
  const row = await one<{ id: string }>(db, {
    sql: `insert into private.outgoing_mails (recipient, subject, body, attempts, next_attempt_at, created_at)
          values ($4, 'Subject', 'Body', $1, now() - $2::interval, now() - $3::interval) returning id`,
    values: [attempts, due, age, recipient],
  });
  return row.id;
}

const claim = (db: Database, most = 1_000) =>
  db.asRole("service_role", async () => {
    const rows = await db.query<{ id: string; attempts: number }>("select * from private.claim_due_mails($1)", [most]);
    return rows;
  });
const claimedIds = async (db: Database, most?: number) => (await claim(db, most)).map(({ id }) => id);

describe("claim_due_mails", () => {
  test("claims a due email only once, and increases the delay after each attempt", async ({ db }) => {
    const id = await keep(db);
    expect(await claim(db)).toContainEqual(expect.objectContaining({ id, attempts: 2, recipient: "a@example.test" }));
    expect(await claimedIds(db)).not.toContain(id);
    const row = await one(db, {
      sql: "select extract(epoch from next_attempt_at - now())::int as pause from private.outgoing_mails where id = $1",
      values: [id],
    });
    expect(row).toEqual({ pause: 240 });
  });

  test.for([
    [4, 256 * 60],
    [5, 12 * 60 * 60],
    [10, 12 * 60 * 60],
  ] as const)(
    "after %s attempts, an email is tried again %s seconds later, at most twelve hours later",
    async ([attempts, pause], { db }) => {
      const id = await keep(db, { attempts });
      await claim(db);
      const row = await one(db, {
        sql: "select extract(epoch from next_attempt_at - now())::int as pause from private.outgoing_mails where id = $1",
        values: [id],
      });
      expect(row).toEqual({ pause });
    },
  );

  test("does not claim a new email while the caller that added it may still send it", async ({ db }) => {
    const { id } = await one<{ id: string }>(db, {
      sql: "insert into private.outgoing_mails (recipient, subject, body) values ('a@b.c', 'S', 'B') returning id",
    });
    expect(await claimedIds(db)).not.toContain(id);
    await db.query("update private.outgoing_mails set next_attempt_at = now() where id = $1", [id]);
    expect(await claimedIds(db)).toContain(id);
  });

  test.for([
    [11, true],
    [12, false],
  ] as const)("whether an email is tried again after %s attempts: %s", async ([attempts, taken], { db }) => {
    const id = await keep(db, { attempts });
    expect((await claimedIds(db)).includes(id)).toBe(taken);
  });

  test("keeps failed emails for a week, then deletes them", async ({ db }) => {
    const [kept, forgotten] = [
      await keep(db, { attempts: 12, age: "6 days 23:59:59" }),
      await keep(db, { attempts: 12, age: "7 days 00:00:01" }),
    ];
    await claim(db);
    const rows = await db.query<{ id: string }>("select id from private.outgoing_mails where id in ($1, $2)", [
      kept,
      forgotten,
    ]);
    expect(rows).toEqual([{ id: kept }]);
  });

  test("claims no more emails than requested", async ({ db }) => {
    await keep(db);
    await keep(db);
    expect(await claimedIds(db, 1)).toHaveLength(1);
  });

  test("many emails to one recipient don't delay other recipients", async ({ db }) => {
    // Keeps out the emails that other tests commit meanwhile.
    await db.query("lock table private.outgoing_mails in share row exclusive mode");
    await db.query("delete from private.outgoing_mails");
    const many: string[] = [];
    for (let index = 0; index < 5; index += 1) many.push(await keep(db, { due: `${60 - index} seconds` }));
    const other = await keep(db, { due: "1 second", recipient: "b@example.test" });
    expect((await claimedIds(db, 2)).sort()).toEqual([many[0], other].sort());
    expect((await claimedIds(db, 2)).sort()).toEqual([many[1], many[2]].sort());
  });

  test.for(["anon", "gateway"] as const)("claim_due_mails can't be called by %s", async (role, { db }) => {
    const call = () => db.asRole(role, () => db.query("select private.claim_due_mails(1)"));
    expect((await failureOf(call)).code).toBe("42501");
  });

  test("claim_due_mails can't be called by users", async ({ db }) => {
    const claims = await createActor(db, {});
    const call = () => db.asUser(claims, () => db.query("select private.claim_due_mails(1)"));
    expect((await failureOf(call)).code).toBe("42501");
  });
});

test.for(["subject = E'a\\nBcc: x@y.z'", "subject = ''", "recipient = ''", "body = ''", "attempts = 0"])(
  "an email with %s is refused",
  async (assignment, { db }) => {
    const id = await keep(db);
    const change = () => db.query(`update private.outgoing_mails set ${assignment} where id = $1`, [id]);
    // asRole sets a savepoint, because a failure aborts the transaction.
    expect((await failureOf(() => db.asRole("service_role", change))).code).toBe("23514");
  },
);
