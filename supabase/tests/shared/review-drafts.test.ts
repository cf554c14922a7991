import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";

const store = async (db: Database, userId: string, { contents = "{}", kind = "cost_file" } = {}) =>
  (
    await one<{ id: string }>(db, {
      sql: "select private.store_review_draft($1, $2, $3) as id",
      values: [userId, kind, contents],
    })
  ).id;
const read = async (db: Database, userId: string, { id, kind = "cost_file" }: { id: string; kind?: string }) =>
  (
    await one<{ text: string | null }>(db, {
      sql: "select private.read_review_draft($1, $2, $3) as text",
      values: [userId, kind, id],
    })
  ).text;
const age = (db: Database, by: string) =>
  db.query("update private.review_drafts set expires_at = expires_at - $1::interval", [by]);

const maxBytes = 4 * 1024 * 1024;

describe("a review draft", () => {
  test("a review draft can be read for 15 minutes, only by its account and for its kind of review", async ({ db }) => {
    const [ada, bob] = [await createUser(db), await createUser(db)];
    const id = await store(db, ada.id, { contents: "a" });
    expect(await read(db, ada.id, { id })).toBe("a");
    expect(await read(db, bob.id, { id })).toBeNull();
    expect(await read(db, ada.id, { id, kind: "prices" })).toBeNull();
    await age(db, "14 minutes 59 seconds");
    expect(await read(db, ada.id, { id })).toBe("a");
    await age(db, "1 second");
    expect(await read(db, ada.id, { id })).toBeNull();
  });

  test("an account keeps its five newest review drafts, and expired ones are deleted", async ({ db }) => {
    const [ada, bob] = [await createUser(db), await createUser(db)];
    const expired = await store(db, bob.id);
    await age(db, "15 minutes 1 second");
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await store(db, ada.id, { contents: String(n) }));
    const texts = await Promise.all(ids.map((id) => read(db, ada.id, { id })));
    expect(texts).toEqual([null, "1", "2", "3", "4", "5"]);
    expect(await db.query("select from private.review_drafts where id = $1", [expired])).toEqual([]);
  });

  test("concurrent calls of an account leave five review drafts", async () => {
    const { db, close } = openPool(8);
    const { id: userId } = await createUser(db);
    try {
      await Promise.all(Array.from({ length: 20 }, () => store(db, userId)));
      expect(await db.query("select from private.review_drafts where user_id = $1", [userId])).toHaveLength(5);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });

  test("a review draft of 4 MiB is stored, and ends with its account", async ({ db }) => {
    const { id: userId } = await createUser(db);
    const id = await store(db, userId, { contents: "x".repeat(maxBytes) });
    await db.query("delete from auth.users where id = $1", [userId]);
    expect(await db.query("select from private.review_drafts where id = $1", [id])).toEqual([]);
  });

  test.for([
    ["more than 4 MiB", { contents: "x".repeat(maxBytes + 1) }],
    ["an unknown kind", { kind: "other" }],
  ] as const)("a review draft with %s is refused", async ([, draft], { db }) => {
    const { id: userId } = await createUser(db);
    expect(await failureOf(() => store(db, userId, draft))).toMatchObject({ code: "23514" });
  });
});
