import { hasSqlDetails, parse } from "libpg-query";

/**
 * A statement of a SQL file as the Supabase CLI records it. The text includes the comments before the statement, but
 * not the closing semicolon.
 */
export type Statement = {
  text: string;
  /** Where `text` begins in the file, in UTF-16 units. */
  offset: number;
};

/** A SQL file with a syntax error, according to Postgres's own grammar. */
export class SqlSyntaxError extends Error {
  override name = "SqlSyntaxError";
  readonly line: number;
  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** Returns the line, counted from 1, of the UTF-16 unit at `offset`. */
export function lineAt(sql: string, offset: number): number {
  return sql.slice(0, offset).split("\n").length;
}

/** Semicolons with only comments and white space before them. */
const emptyStatements = /^(?:(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*;)*\s*/;

/**
 * Splits a SQL file into statements with Postgres's own parser.
 * @throws SqlSyntaxError at the first syntax error
 */
export async function splitStatements(sql: string): Promise<Statement[]> {
  const bytes = Buffer.from(sql, "utf8");
  let parsed: { stmts: { stmt_location?: number; stmt_len?: number }[] };
  try {
    parsed = (await parse(sql)) as typeof parsed;
  } catch (error) {
    if (!(error instanceof Error) || !hasSqlDetails(error) || !error.sqlDetails) throw error;
    const before = [...sql].slice(0, error.sqlDetails.cursorPosition).join("");
    throw new SqlSyntaxError(error.sqlDetails.message, lineAt(sql, before.length));
  }
  let start = 0;
  let startUnit = 0;
  return parsed.stmts.map(({ stmt_location = 0, stmt_len }) => {
    // The parser returns the position of the statement's first word, so comments before the statement are between the
    // end of the previous statement and that position.
    const raw = bytes.subarray(start, stmt_len ? stmt_location + stmt_len : undefined).toString("utf8");
    const text = raw.replace(emptyStatements, "");
    const offset = startUnit + (raw.length - text.length);
    startUnit += raw.length;
    start = stmt_location + (stmt_len ?? 0);
    return { text: text.replace(/[\s;]+$/, ""), offset };
  });
}

/** White space of SQL, and semicolons. */
const separator = /[ \t\n\r\f\v;]*/y;

/**
 * Returns whether a SQL file certainly splits into `texts`, without parsing it: whether it consists of them, with only
 * white space and semicolons around them. Returns false for some files that do split into them.
 */
export function isJoinOf(sql: string, texts: readonly string[]): boolean {
  let at = 0;
  let previous = ";";
  for (const text of [...texts, ""]) {
    separator.lastIndex = at;
    const between = separator.exec(sql)?.[0] ?? "";
    at += between.length;
    // A semicolon after a comment may be part of the comment.
    const isSeparated = (between.includes(";") && !/--[^\n]*$/.test(previous)) || previous === ";" || at === sql.length;
    if (!isSeparated || !sql.startsWith(text, at)) return false;
    at += text.length;
    previous = text;
  }
  return at === sql.length;
}

/** Returns the first lines of a statement, without the comments before it. */
export function excerpt(text: string, maxLines = 6): string {
  const lines = text.slice(leadingComments(text)).split("\n");
  return [...lines.slice(0, maxLines), ...(lines.length > maxLines ? ["…"] : [])].join("\n");
}

/** Returns the number of UTF-16 units of comments and white space before the statement itself. */
export function leadingComments(text: string): number {
  return /^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/.exec(text)?.[0].length ?? 0;
}
