import type { AnyAST } from "@supabase/lite";
import type { Introspection } from "./schema-cache.ts";

/** A text value for Postgres to parse. Prevents Supabase Lite from converting a string for the column's type. */
class WireText {
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Returns the text that `pg` sends. */
  toPostgres(): string {
    return this.text;
  }
}

/**
 * Prepares values so that Postgres parses them as it would for PostgREST. Supabase Lite would parse strings as JSON or
 * numbers, depending on the column's type. That unquotes JSON strings and drops digits. The driver would write a JSON
 * array as a Postgres array.
 */
export function settleValues(ast: AnyAST, schema: Introspection): AnyAST {
  if (ast.type === "rpc") return { ...ast, args: settleArguments(ast, schema) };
  if (!ast.values) return ast;
  const columns = schema.columns.filter(
    (column) => column.table === ast.from && column.schema === schemaOf(ast, schema) && !column.is_primary_key,
  );
  const jsonColumns = new Set(columns.filter(({ pg_type, type }) => isJson(pg_type ?? type)).map(({ name }) => name));
  const otherColumns = new Set(columns.map(({ name }) => name));
  const settle = (name: string, value: unknown) => {
    if (value === null || value === undefined) return value;
    if (jsonColumns.has(name)) return new WireText(JSON.stringify(value));
    return typeof value === "string" && otherColumns.has(name) ? new WireText(value) : value;
  };
  const settleRow = (row: object) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, settle(name, value)]));
  return { ...ast, values: Array.isArray(ast.values) ? ast.values.map(settleRow) : settleRow(ast.values) };
}

/**
 * Encodes strings as JSON if the function's parameter has the type json or jsonb. Other arguments need no conversion.
 */
function settleArguments(ast: AnyAST, schema: Introspection): AnyAST["args"] {
  const { args } = ast;
  if (args === undefined || Array.isArray(args) || ast.httpMethod === "GET") return args;
  const overloads = (schema.functions ?? []).filter(
    ({ name, schema: owner }) => name === ast.function && owner === schemaOf(ast, schema),
  );
  const takesJson = (argument: string) =>
    overloads.some(({ arg_names, arg_types }) => isJson(arg_types[arg_names.indexOf(argument)] ?? ""));
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      typeof value === "string" && takesJson(name) ? JSON.stringify(value) : value,
    ]),
  );
}

function schemaOf(ast: AnyAST, schema: Introspection): string {
  return ast.schema ?? schema.default_schema ?? "public";
}

function isJson(type: string): boolean {
  return type === "json" || type === "jsonb";
}
