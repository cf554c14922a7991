import { loadModule, parsePlPgSQLSync, parseSync } from "libpg-query";
import type { Database } from "./database.ts";

type Node = Record<string, unknown>;
type Definition = { name: string; language: string; definition: string; body: string };

/**
 * Finds every UPDATE and DELETE without WHERE in the functions of public, private and ai, including in CTEs and in SQL
 * that a function builds from strings. Hosted Supabase loads the extension safeupdate into each session of the Data
 * API. The extension refuses these statements, even inside functions. It accepts any WHERE, even `where true`, and also
 * accepts INSERT … ON CONFLICT DO UPDATE and MERGE.
 * @returns sorted lines of `<function>: <what>`. Also lists each DO block, and each EXECUTE whose text cannot be read
 * before the call
 * @throws Error for a function in a language other than SQL and PL/pgSQL
 */
export async function findUnfilteredChanges(db: Database): Promise<string[]> {
  await loadModule();
  const functions = await db.query<Definition>(`
    select p.oid::regprocedure::text as name, l.lanname as language, pg_get_functiondef(p.oid) as definition,
      p.prosrc as body
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
    where n.nspname in ('public', 'private', 'ai') and p.prokind in ('f', 'p')`);
  const rowTypes = await db.query<{ pattern: string }>(`
    select regexp_replace(format('%I.%I', n.nspname, t.typname), '(\\W)', '\\\\\\1', 'g') as pattern
    from pg_type t join pg_namespace n on n.oid = t.typnamespace
    where t.typtype = 'c' and n.nspname in ('public', 'private', 'ai', 'auth')`);
  const names = rowTypes.map(({ pattern }) => pattern).join("|");
  const rowType = new RegExp(`(?<![\\w.])(?:${names})(?![\\w.[])`, "gi");
  const lines = functions.flatMap(({ name, language, definition, body }) => {
    // pg_get_functiondef shows a BEGIN ATOMIC body as SQL statements, but any other SQL body as a string. The string is
    // parsed separately.
    const found = language === "plpgsql" ? readPlpgsql(withKnownTypes(definition, rowType)) : readSql(definition);
    if (language === "sql" && body !== "") found.push(...readSql(body));
    if (language !== "sql" && language !== "plpgsql") throw new Error(`${name} is in ${language}, which is not read`);
    return [...new Set(found)].map((line) => `${name}: ${line}`);
  });
  return lines.sort();
}

/**
 * The parser has no catalogue: it can't look up types, and allows field assignment only for variables of type record.
 */
function withKnownTypes(definition: string, rowType: RegExp): string {
  return definition
    .replace(/[\w."]+%type\b/gi, "text")
    .replace(/[\w."]+%rowtype\b/gi, "record")
    .replace(rowType, "record")
    .replace(/^ RETURNS \S+\[\]$/m, " RETURNS text[]");
}

function readPlpgsql(definition: string): string[] {
  const found: string[] = [];
  visit(parsePlPgSQLSync(definition), (node) => {
    const execute = (node.PLpgSQL_stmt_dynexecute ?? node.PLpgSQL_stmt_dynfors) as Node | undefined;
    const dynamic = (execute?.query ?? node.dynquery) as Node | undefined;
    if (dynamic) found.push(...readExecute(sqlOf(dynamic)));
    if (node.PLpgSQL_expr) found.push(...readSql(sqlOf(node)));
    return true;
  });
  return found;
}

/** Returns the statement that evaluates a PL/pgSQL expression. */
function sqlOf(node: Node): string {
  const { query, parseMode } = node.PLpgSQL_expr as { query: string; parseMode: number };
  if (parseMode === 0) return query;
  const isAssignment = parseMode > 2;
  return `select ${isAssignment ? query.replace(/^.*?:?=/s, "") : query}`;
}

function readSql(sql: string): string[] {
  return readTree(parseSync(sql));
}

function readTree(tree: unknown): string[] {
  const found: string[] = [];
  visit(tree, (node) => {
    const { UpdateStmt: update, DeleteStmt: remove } = node as Record<string, Node | undefined>;
    if (update && !update.whereClause) found.push("UPDATE without WHERE");
    if (remove && !remove.whereClause) found.push("DELETE without WHERE");
    if (node.DoStmt) found.push("DO block, which is not read");
    const unknown: unknown[] = [];
    const text = textOf(node, unknown);
    if (text === undefined) return true;
    found.push(...readTree([parsed(text), unknown]));
    return false;
  });
  return found;
}

/** Reports an EXECUTE statement whose text cannot be parsed as SQL. */
function readExecute(sql: string): string[] {
  const select = (parseSync(sql) as unknown as { stmts: { stmt: { SelectStmt: { targetList: Node[] } } }[] }).stmts[0];
  const target = select?.stmt.SelectStmt.targetList[0]?.ResTarget as { val: Node };
  return parsed(textOf(target.val, []) ?? "")
    ? []
    : [`EXECUTE that cannot be read: ${sql.slice("select".length).trim()}`];
}

function parsed(text: string): unknown {
  try {
    return parseSync(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns the text of a string constant, or of constants combined by `||`, format, concat or a cast. Each value that is
 * known only at the call is replaced by the identifier `x`.
 * @param unknown receives the replaced values
 */
function textOf(node: unknown, unknown: unknown[]): string | undefined {
  const { A_Const: constant, TypeCast: cast, A_Expr: operation, FuncCall: call } = node as Record<string, Node>;
  const part = (value: unknown): string => {
    const text = textOf(value, unknown);
    if (text === undefined) unknown.push(value);
    return text ?? "x";
  };
  if (constant?.sval) return (constant.sval as { sval?: string }).sval ?? "";
  if (cast) return textOf(cast.arg, unknown);
  if (operation && nameOf(operation.name) === "||") return part(operation.lexpr) + part(operation.rexpr);
  if (!call?.args) return undefined;
  const [first, ...others] = call.args as unknown[];
  switch (nameOf(call.funcname)) {
    case "concat":
      return [first, ...others].map(part).join("");
    case "concat_ws":
      return others.map(part).join(part(first));
    case "format": {
      const template = textOf(first, unknown);
      return template === undefined ? undefined : format(template, others.map(part));
    }
    default:
      return undefined;
  }
}

/** Returns the last part of a qualified name, as the parser formats it. */
function nameOf(parts: unknown): string | undefined {
  return (parts as { String: { sval: string } }[]).at(-1)?.String.sval;
}

/** Implements Postgres's format(). */
function format(template: string, values: string[]): string {
  let next = 0;
  return template.replace(/%(?:(\d+)\$)?(?:-?\d+)?([sIL%])/g, (_, position: string | undefined, type: string) => {
    if (type === "%") return "%";
    if (position) next = Number(position) - 1;
    const value = values[next++] ?? "";
    if (type === "s") return value;
    const quote = type === "I" ? '"' : "'";
    return quote + value.replaceAll(quote, quote + quote) + quote;
  });
}

/**
 * Calls `enter` for each object of a tree, from the root down. Descends into an object only if `enter` returned true.
 */
function visit(tree: unknown, enter: (node: Node) => boolean): void {
  if (Array.isArray(tree)) for (const each of tree) visit(each, enter);
  else if (tree && typeof tree === "object" && enter(tree as Node)) visit(Object.values(tree), enter);
}
