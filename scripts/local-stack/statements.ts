import { hasSqlDetails, parse } from "libpg-query";

/** One statement of a SQL file, as the Supabase CLI records it: comments before it kept, no closing semicolon. */
export type Statement = {
  text: string;
  /** Where `text` begins in the file, in UTF-16 units. */
  offset: number;
};

/** A SQL file that Postgres's own grammar refuses. */
export class SqlSyntaxError extends Error {
  override name = "SqlSyntaxError";
  readonly line: number;
  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** The line, counted from 1, on which the UTF-16 unit at `offset` lies. */
export function lineAt(sql: string, offset: number): number {
  return sql.slice(0, offset).split("\n").length;
}

/** Semicolons with nothing but comments before them, and white space. */
const emptyStatements = /^(?:(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*;)*\s*/;

/**
 * Splits a SQL file into its statements with Postgres's own parser.
 * @throws SqlSyntaxError at the first thing the grammar refuses
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
  return parsed.stmts.map(({ stmt_location = 0, stmt_len }) => {
    // The parser locates the first word: comments before it lie between it and the previous statement.
    const raw = bytes.subarray(start, stmt_len ? stmt_location + stmt_len : undefined).toString("utf8");
    const text = raw.replace(emptyStatements, "");
    const offset = bytes.subarray(0, start).toString("utf8").length + (raw.length - text.length);
    start = stmt_location + (stmt_len ?? 0);
    return { text: text.replace(/[\s;]+$/, ""), offset };
  });
}

/** The first lines of a statement without the comments before it, short enough for a message. */
export function excerpt(text: string, maxLines = 6): string {
  const lines = text.slice(leadingComments(text)).split("\n");
  return [...lines.slice(0, maxLines), ...(lines.length > maxLines ? ["…"] : [])].join("\n");
}

/** How many UTF-16 units of comments and white space stand before the statement itself. */
export function leadingComments(text: string): number {
  return /^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/.exec(text)?.[0].length ?? 0;
}
