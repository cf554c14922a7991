import { expect, test } from "vitest";
import { excerpt, isJoinOf, leadingComments, lineAt, SqlSyntaxError, splitStatements } from "./statements.ts";

const texts = async (sql: string) => (await splitStatements(sql)).map((statement) => statement.text);

test("does not end a statement at semicolons in strings, bodies or comments", async () => {
  const body = "create function f() returns text language sql as $$ select ';' ; $$";
  expect(await texts(`select 'a;b'; -- c;d\n/* e;f */ ${body};\nselect 1;`)).toEqual([
    "select 'a;b'",
    `-- c;d\n/* e;f */ ${body}`,
    "select 1",
  ]);
});

test("treats a function's SQL-standard body as one statement", async () => {
  const body = "create function f() returns int language sql begin atomic select 1; select 2; end";
  expect(await texts(`${body};select 3`)).toEqual([body, "select 3"]);
});

test("finds no statement in text that contains only comments", async () => {
  expect(await texts("-- nothing\n/* here */\n")).toEqual([]);
});

test("drops empty statements with their comments", async () => {
  expect(await texts("; select 1;; -- none\n; /* two */ select 2; ;")).toEqual(["select 1", "/* two */ select 2"]);
});

test("measures a statement's offset in characters, even after multi-byte characters", async () => {
  const sql = "select 'Zoë 🦉';\n\n\nselect 2;";
  const [, second] = await splitStatements(sql);
  expect(second?.text).toBe("select 2");
  expect(lineAt(sql, second?.offset ?? 0)).toBe(4);
});

test.for([
  ["the same statements", "select 1;\n\n-- why\nselect 2;\n", true],
  ["further white space and semicolons", ";;select 1 ;;\n-- why\nselect 2", true],
  ["a changed statement", "select 3;\n-- why\nselect 2;", false],
  ["a further statement", "select 1;\n-- why\nselect 2; select 3;", false],
  ["a missing statement", "select 1;", false],
  ["no semicolon between the statements", "select 1\n-- why\nselect 2;", false],
  ["a changed comment", "select 1;\n-- how\nselect 2;", false],
  ["nothing", "", false],
] as const)("compares recorded statements with a file that has %s", async ([, sql, expected]) => {
  const recorded = ["select 1", "-- why\nselect 2"];
  expect(isJoinOf(sql, recorded)).toBe(expected);
  expect((await texts(sql).catch(() => "invalid")).toString() === recorded.toString()).toBe(expected);
});

test("does not take a semicolon in a comment for the end of a statement", async () => {
  const recorded = await texts("select 1 -- one\n; select 2;");
  expect(isJoinOf("select 1 -- one; select 2;", recorded)).toBe(false);
  expect(isJoinOf("select 1; -- none", ["select 1"])).toBe(false);
  expect(isJoinOf("-- nothing", [])).toBe(false);
  expect(isJoinOf("\n", [])).toBe(true);
});

test("reports the line of a syntax error", async () => {
  const split = splitStatements("select '🦉';\n\ncreate tabel x ();\nselect 1;");
  await expect(split).rejects.toThrow(SqlSyntaxError);
  await expect(split).rejects.toMatchObject({ line: 3, message: 'syntax error at or near "tabel"' });
});

test("a statement's excerpt is short and begins after the comments", () => {
  const text = `-- why\n/* and\nhow */\n${Array.from({ length: 9 }, (_, line) => `line ${line}`).join("\n")}`;
  expect(text.slice(leadingComments(text))).toMatch(/^line 0/);
  expect(excerpt(text, 2)).toBe("line 0\nline 1\n…");
});
