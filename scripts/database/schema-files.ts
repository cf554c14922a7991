import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { StackError } from "@gatehousehq/local-stack/errors";
import {
  type CommentStmt,
  type CreateFunctionStmt,
  type GrantStmt,
  type Node,
  parse,
  type TypeName,
} from "libpg-query";
import { handWrittenMigration } from "./hand-written.ts";
import { leadingComments, lineAt, SqlSyntaxError, type Statement, splitStatements } from "./statements.ts";

/** The name of an object, written as in the SQL statement. Postgres resolves the name. */
export type ObjectName =
  | { kind: "function"; schema: string; name: string; signature: string }
  | { kind: "view"; schema: string; name: string }
  | { kind: "trigger"; schema: string; table: string; name: string };

/** A statement of `supabase/schemas/` with the comment lines directly above it, and the line on which they begin. */
export type Source = { file: string; line: number; text: string };
export type Definition = Source & { object: ObjectName; body?: string };
export type Comment = Source & { object: { kind: "view"; schema: string; name: string; column?: string } };
export type Grant = Source & { grant: GrantStmt };
export type SchemaFiles = { definitions: Definition[]; comments: Comment[]; grants: Grant[] };

const grantsFile = "grants.sql";
/** The default schema of names without a schema. Migrations use the same default. */
const defaultSchema = "public";

/**
 * Reads `supabase/schemas/`: functions, triggers, views with their comments, and the grants of `grants.sql`.
 * @param version the next migration's version. If a statement belongs in a migration, the error suggests a file name
 * with this version.
 * @throws StackError with file and line if the SQL is invalid or a statement belongs in a migration
 */
export async function readSchemaFiles(directory: string, { version }: { version: string }): Promise<SchemaFiles> {
  const names = (await readdir(directory, { recursive: true })).filter((name) => name.endsWith(".sql")).sort();
  const read: SchemaFiles = { definitions: [], comments: [], grants: [] };
  const refused: string[] = [];
  for (const name of names) {
    const file = path.join(directory, name);
    const sql = await readFile(file, "utf8");
    for (const statement of await split(file, sql)) {
      const source = sourceOf(statement, { file: display(file), sql });
      const [parsed] = ((await parse(statement.text)) as { stmts: { stmt: Node }[] }).stmts;
      if (!parsed) continue;
      const refusal = sort(read, { node: parsed.stmt, source, inGrants: name === grantsFile, version });
      if (refusal) refused.push(`${placeOf(source)}: ${refusal}`);
    }
  }
  if (refused.length > 0) throw new StackError(refused.join("\n\n"));
  return read;
}

type Sorted = { node: Node; source: Source; inGrants: boolean; version: string };

/** Adds a statement to the contents read so far, or returns why the statement is not allowed in its file. */
function sort(read: SchemaFiles, { node, source, inGrants, version }: Sorted): string | undefined {
  if ("GrantStmt" in node) {
    if (!inGrants) return `grants are listed in ${grantsFile}.`;
    read.grants.push({ ...source, grant: node.GrantStmt });
    return undefined;
  }
  if (inGrants) return `${grantsFile} lists grants only.`;
  if ("CreateFunctionStmt" in node) {
    const created = node.CreateFunctionStmt;
    if (!created.replace) return 'write "create or replace".';
    read.definitions.push({ ...source, object: functionName(created), body: plpgsqlBody(created) });
    return undefined;
  }
  if ("ViewStmt" in node) {
    const { view, replace } = node.ViewStmt;
    if (!replace) return 'write "create or replace view".';
    const [schema, name] = [view?.schemaname ?? defaultSchema, view?.relname ?? ""];
    read.definitions.push({ ...source, object: { kind: "view", schema, name } });
    return undefined;
  }
  if ("CreateTrigStmt" in node) {
    const { relation, trigname: name = "", replace, isconstraint } = node.CreateTrigStmt;
    // Postgres has no "create or replace constraint trigger".
    if (!replace && !isconstraint) return 'write "create or replace trigger".';
    const [schema, table] = [relation?.schemaname ?? defaultSchema, relation?.relname ?? ""];
    read.definitions.push({ ...source, object: { kind: "trigger", schema, table, name } });
    return undefined;
  }
  if ("CommentStmt" in node) {
    if (lineCommented.has(node.CommentStmt.objtype)) return 'write this comment as "--" lines above the definition.';
    const object = commentedView(node.CommentStmt);
    if (object) {
      read.comments.push({ ...source, object });
      return undefined;
    }
  }
  return handWrittenMigration(node, { text: source.text, version });
}

async function split(file: string, sql: string): Promise<Statement[]> {
  try {
    return await splitStatements(sql);
  } catch (error) {
    if (!(error instanceof SqlSyntaxError)) throw error;
    const line = sql.split("\n")[error.line - 1]?.trim() ?? "";
    throw new StackError(`${display(file)}, line ${error.line}: ${error.message}\n  ${line}`);
  }
}

/**
 * Returns the statement with the comments directly above it. Leaves out comments that a blank line follows, such as the
 * file's heading.
 */
function sourceOf({ text, offset }: Statement, { file, sql }: { file: string; sql: string }): Source {
  const comments = text.slice(0, leadingComments(text));
  const withoutBlankLines = comments.replace(/--[^\n]*|\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/\s/g, "-"));
  const heading = /^[\s\S]*\n[ \t\r]*\n/.exec(withoutBlankLines)?.[0].length ?? 0;
  return { file, line: lineAt(sql, offset + heading), text: text.slice(heading) };
}

/** Returns the file and line of the position `offset` in a statement; by default, of the statement itself. */
export function placeOf({ file, line, text }: Source, offset = leadingComments(text)): string {
  return `${file}, line ${line + lineAt(text, offset) - 1}`;
}

function functionName({ funcname, parameters }: CreateFunctionStmt): ObjectName {
  const types = (parameters ?? []).flatMap((node) => {
    if (!("FunctionParameter" in node)) return [];
    const { mode, argType } = node.FunctionParameter;
    return mode === "FUNC_PARAM_OUT" || mode === "FUNC_PARAM_TABLE" || !argType ? [] : [typeText(argType)];
  });
  const names = namesOf(funcname);
  const name = names.pop() ?? "";
  const schema = names[0] ?? defaultSchema;
  return { kind: "function", schema, name, signature: `${quote(schema)}.${quote(name)}(${types.join(", ")})` };
}

/** Objects whose description is in their file only, so that rewording it needs no migration. */
const lineCommented = new Set<CommentStmt["objtype"]>([
  "OBJECT_FUNCTION",
  "OBJECT_PROCEDURE",
  "OBJECT_ROUTINE",
  "OBJECT_TRIGGER",
]);

function commentedView({ objtype, object }: CommentStmt): Comment["object"] | undefined {
  if (!object || !("List" in object)) return undefined;
  const names = namesOf(object.List.items);
  const last = names.pop() ?? "";
  if (objtype === "OBJECT_VIEW") return { kind: "view", schema: names[0] ?? defaultSchema, name: last };
  if (objtype !== "OBJECT_COLUMN") return undefined;
  const [schema, table] = names.length > 1 ? names : [defaultSchema, names[0]];
  return schema && table ? { kind: "view", schema, name: table, column: last } : undefined;
}

function typeText({ names, arrayBounds }: TypeName): string {
  return namesOf(names).map(quote).join(".") + (arrayBounds ?? []).map(() => "[]").join("");
}

function namesOf(nodes: readonly Node[] | undefined): string[] {
  return (nodes ?? []).flatMap((node) => ("String" in node ? [node.String.sval ?? ""] : []));
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Returns the body of a PL/pgSQL function. Postgres doesn't resolve the names in the body until the function runs. */
function plpgsqlBody({ options }: CreateFunctionStmt): string | undefined {
  const byName = new Map(
    (options ?? []).flatMap((node) => ("DefElem" in node ? [[node.DefElem.defname, node.DefElem.arg]] : [])) as [
      string,
      Node,
    ][],
  );
  const language = byName.get("language");
  const body = byName.get("as");
  if (!language || !("String" in language) || language.String.sval !== "plpgsql") return undefined;
  return body && "List" in body ? namesOf(body.List.items)[0] : undefined;
}

function display(file: string): string {
  return path.relative(process.cwd(), file) || file;
}
