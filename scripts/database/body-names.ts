import type pg from "pg";
import { byMigration } from "./run-statements.ts";
import { type Definition, placeOf } from "./schema-files.ts";

type Reference = { table: string; column: string; at: number };

/**
 * Finds the schema-qualified names in PL/pgSQL bodies for which no table, column or function exists. Postgres itself
 * resolves a PL/pgSQL body only when it runs. Strings, including dynamic SQL, are not checked.
 * @returns one message for each unknown name, with file and line
 */
export async function findUnknownNames(
  client: pg.Client,
  definitions: readonly Omit<Definition, "object">[],
): Promise<string[]> {
  const schemas = await listNames(client, "select nspname as name from pg_namespace");
  const objects = await listNames(
    client,
    `select format('%s.%s', relnamespace::regnamespace, relname) as name from pg_class
     union select format('%s.%s', pronamespace::regnamespace, proname) from pg_proc
     union select format('%s.%s', typnamespace::regnamespace, typname) from pg_type`,
  );
  const columns = await listNames(
    client,
    `select format('%s.%s.%s', c.relnamespace::regnamespace, c.relname, a.attname) as name
     from pg_attribute a join pg_class c on c.oid = a.attrelid where not a.attisdropped`,
  );
  const messages = definitions.flatMap((definition) => {
    const { body, text } = definition;
    if (body === undefined) return [];
    const code = withoutStrings(body);
    const start = text.indexOf(body);
    const describe = (at: number, what: string) =>
      `${placeOf(definition, start + at)}: ${what} does not exist.\n${byMigration}`;
    const unknown = qualifiedNames(code).flatMap(({ table, column, at }) => {
      const isTable = relationContext.test(code.slice(0, at));
      if (!schemas.has(table.split(".")[0] ?? "")) return isTable ? [describe(at, table)] : [];
      if (!objects.has(table)) return [describe(at, table)];
      return column && !columns.has(`${table}.${column}`) ? [describe(at, `column ${column} of ${table}`)] : [];
    });
    const unknownColumns = insertedColumns(code)
      .filter(({ table, column }) => objects.has(table) && !columns.has(`${table}.${column}`))
      .map(({ table, column, at }) => describe(at, `column ${column} of ${table}`));
    return [...unknown, ...unknownColumns];
  });
  return [...new Set(messages)];
}

/**
 * Matches text that only a table's name can follow. `from` is left out, since it also occurs in `extract(epoch from …)`
 * and `is distinct from`.
 */
const relationContext = /\b(?:insert\s+into|delete\s+from|update|join)\s+$/i;

/** Temporary tables are skipped, since they exist only while the body runs. */
const qualified = /(?<![\w.$"])(?!pg_temp\.)([a-z_]\w*)\.([a-z_]\w*)(?:\.([a-z_]\w*))?(?![\w.])/gi;
const insertColumns = /\binsert\s+into\s+([a-z_]\w*\.[a-z_]\w*)(?:\s+as\s+\w+)?\s*\(([\w\s,]*)\)/gi;

function qualifiedNames(code: string): Reference[] {
  return [...code.matchAll(qualified)].map(({ 1: schema = "", 2: name = "", 3: column = "", index }) => ({
    table: `${schema}.${name}`.toLowerCase(),
    column: column.toLowerCase(),
    at: index,
  }));
}

function insertedColumns(code: string): Reference[] {
  return [...code.matchAll(insertColumns)].flatMap(({ 0: all, 1: table = "", 2: list = "", index }) =>
    [...list.matchAll(/\w+/g)].map(({ 0: column, index: within }) => ({
      table: table.toLowerCase(),
      column: column.toLowerCase(),
      at: index + all.lastIndexOf("(") + 1 + within,
    })),
  );
}

const commentOrString =
  /(\n?[ \t]*--[^\n]*)|\/\*[\s\S]*?\*\/|\be'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"[^"]*"|(\$\w*\$)[\s\S]*?\2/gi;

/** Blanks strings and comments without changing positions. */
function withoutStrings(body: string): string {
  return body.replace(commentOrString, (found) => found.replace(/[^\n]/g, " "));
}

/** Removes line comments, and the line break before a comment on its own line. */
export function withoutLineComments(body: string): string {
  return body.replace(commentOrString, (found, comment) => (comment ? "" : found));
}

async function listNames(client: pg.Client, sql: string): Promise<Set<string>> {
  const { rows } = await client.query<{ name: string }>(sql);
  return new Set(rows.map(({ name }) => name));
}
