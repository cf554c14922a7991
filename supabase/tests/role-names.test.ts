import { expect } from "vitest";
import { createWorkspace, failureOf } from "./actors.ts";
import { type Database, test } from "./database.ts";

/** Creates a role through the Data API's role, as the workspace's owner. */
async function createRole(db: Database, name: string): Promise<void> {
  const { id, owner } = await createWorkspace(db);
  const sql = "insert into public.workspace_roles (workspace_id, name) values ($1, $2)";
  await db.asUser(owner, () => db.query(sql, [id, name]));
}

// Unicode TR39 (Unicode Security Mechanisms): invisible characters, and words of several scripts that look alike.
test.for([
  ["a zero-width joiner", "ad\u200dmin"],
  ["a zero-width non-joiner", "admin\u200c"],
  ["a zero-width space", "admin\u200b"],
  ["a soft hyphen", "ad\u00admin"],
  ["a variation selector", "admin\ufe0f"],
  ["a Hangul filler", "admin\u3164"],
  ["a Cyrillic o", "\u043ewner"],
  ["a Cyrillic e at its end", "membe\u0433"],
  ["a Greek omicron", "\u03bfwner"],
  ["an Armenian letter", "ow\u0578er"],
  ["full-width letters", "\uff4fwner"],
  ["mathematical letters", "\u{1d428}wner"],
  ["a look-alike word after another", "Team \u0430dmin"],
])("refuses a role whose name has %s", async ([, name = ""], { db }) => {
  expect((await failureOf(() => createRole(db, name))).code).toBe("23514");
});

test.for(["Support", "Größe 2", "Аналитик", "Аналитик QA", "IT-отдел", "Διαχείριση", "財務", "R&D", "Ops 🙂"])(
  "accepts a role named %s",
  async (name, { db }) => {
    await createRole(db, name);
  },
);
