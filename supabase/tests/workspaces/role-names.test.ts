import { describe, expect } from "vitest";
import { createWorkspace, failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";

const insert =
  "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, $2, '{manage_members}')";

/** Creates a role through the Data API's role, as the workspace's owner. */
async function createRole(db: Database, name: string): Promise<void> {
  const { id, owner } = await createWorkspace(db);
  await db.asUser(owner, () => db.query(insert, [id, name]));
}

// Unicode TR39 (Unicode Security Mechanisms): invisible characters, words of several scripts that look alike, and
// confusables.
const refused = [
  ["a zero-width joiner", "ad\u200dmin"],
  ["a zero-width non-joiner", "admin\u200c"],
  ["a soft hyphen", "ad\u00admin"],
  ["a variation selector", "admin\ufe0f"],
  ["a variation selector after a space", "admin \ufe0f."],
  ["a joiner between an emoji and a letter", "\u2b50\u200dTeam"],
  ["a Hangul filler", "admin\u3164"],
  ["a tag character", "admin\u{e0061}"],
  ["a Cyrillic o", "\u043ewner"],
  ["a Cyrillic e at its end", "membe\u0433"],
  ["a Cyrillic letter apart from Latin letters", "T1\u0435am"],
  ["a Greek omicron", "\u03bfwner"],
  ["an Armenian letter", "ow\u0578er"],
  ["a Lisu o", "\ua4f3wner"],
  ["a Coptic o", "\u2c9fwner"],
  ["a Hebrew samekh", "\u05e1wner"],
  ["only Cyrillic letters that look like owner", "\u043e\u051d\u043f\u0435\u0433"],
  ["only Lisu letters that look like owner", "\ua4f3\ua4ea\ua4e0\ua4f0\ua4e3"],
  ["a dotless i", "adm\u0131n"],
  ["a Latin alpha", "\u0251dmin"],
  ["small capitals", "\u1d0f\u1d21\u0274\u1d07\u0280"],
  ["a digit for a letter", "0wner"],
  ["an l for an i", "Admln"],
  ["rn for m", "rnember"],
  ["marks on letters", "\u1ecdwner"],
  ["full-width letters", "\uff4fwner"],
  ["only full-width letters", "\uff33\uff35\uff30"],
  ["mathematical letters", "\u{1d428}wner"],
  ["a script letter", "\u2133ember"],
  ["a circled letter", "\u24d0dmin"],
  ["an emoji of a letter", "\u{1f170}\ufe0fdmin"],
  ["letters in black circles", "\u{1f15e}\u{1f166}\u{1f15d}\u{1f154}\u{1f161}"],
  ["a look-alike word after another", "Team \u0430dmin"],
  ["a look-alike word after an emoji", "\u2b50\ufe0f adm\u0131n"],
] as const;

const accepted = [
  ...["Support", "Größe 2", "Gro\u0308\u00dfe", "Аналитик", "Админ", "Адмін", "Аналитик QA", "IT-отдел", "Διαχείριση"],
  ...["財務", "R&D", "Ops 🙂", "Trade™", "Trade™️", "Отдел™", "Ops…", "Support ⭐️", "⭐️Support", "A-Team 🅰️"],
  ...[
    "Dev 👩‍💻",
    "Pride 🏳️‍🌈",
    "Family 👨‍👩‍👧",
    "Level 1️⃣",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿 desk",
    "❤️‍🔥",
    "No. ½",
    "Super admin",
    "Members",
    "Ad Min 10",
  ],
];

describe("the name of a role", () => {
  test.for(refused)("is refused with %s", async ([, name], { db }) => {
    const failure = await failureOf(() => createRole(db, name));
    expect(failure).toMatchObject({ code: "23514", constraint: "recognizable_name" });
  });

  test.for(accepted)("may be %s", async (name, { db }) => {
    await createRole(db, name);
  });

  test.for(refused)("does not stop a change of permissions if it was accepted before: %s", async ([, name], { db }) => {
    // Locks the table before any row, because a later lock can deadlock with a concurrent test.
    await db.query("alter table public.workspace_roles disable trigger require_recognizable_name");
    const { id, owner } = await createWorkspace(db);
    await db.query(insert, [id, name]);
    await db.query("alter table public.workspace_roles enable trigger require_recognizable_name");
    const save = (newName: string) =>
      db.asUser(owner, () =>
        db.query(
          "update public.workspace_roles set name = $3, permissions = '{}' where workspace_id = $1 and name = $2",
          [id, name, newName],
        ),
      );
    await save(name);
    const { permissions } = await one<{ permissions: unknown }>(db, {
      sql: "select permissions::text[] as permissions from public.workspace_roles where workspace_id = $1 and name = $2",
      values: [id, name],
    });
    expect(permissions).toEqual([]);
    expect(await failureOf(() => save(`${name} x`))).toMatchObject({ code: "23514" });
  });
});
