import type { Connection } from "@supabase/lite";
import { PostgresConnection } from "@supabase/lite/postgres";
import { Kysely } from "kysely";
import pg from "pg";
import { poolDialect } from "./pool-dialect.ts";
import { parserOf } from "./wire-types.ts";

/**
 * The roles that requests can have. The catalogue is read as each of these roles, since a role sees only the objects on
 * which it has privileges.
 */
const requestRoles = ["service_role", "authenticated", "anon"];
const connectTimeoutMs = 5_000;

export type Introspection = Awaited<ReturnType<Connection["introspect"]>>;

/**
 * Reads the tables, columns, functions and relations that any of the API's roles can see.
 * @param schemas the served schemas. Views and columns of other schemas are left out, since Supabase Lite searches all
 * of them at each request, and searches a view's whole text once for each column of the view.
 * @throws Error if the database cannot be reached
 */
export async function readSchema(databaseUrl: string, schemas: readonly string[]): Promise<Introspection> {
  const [first, ...others] = await Promise.all(requestRoles.map((role) => readSchemaAs(databaseUrl, role)));
  if (!first) throw new Error("No role to read the schema as");
  const all = [first, ...others];
  const isServed = ({ schema = "public" }: { schema?: string }) => schemas.includes(schema);
  return {
    ...first,
    views: first.views.filter(isServed),
    tables: uniqueBy(
      all.flatMap(({ tables }) => tables),
      ({ schema, name }) => `${schema}.${name}`,
    ),
    columns: uniqueBy(
      all.flatMap(({ columns }) => columns.filter(isServed)),
      ({ schema, table, name }) => `${schema}.${table}.${name}`,
    ),
  };
}

async function readSchemaAs(databaseUrl: string, role: string): Promise<Introspection> {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 1,
    connectionTimeoutMillis: connectTimeoutMs,
    options: `-c role=${role}`,
    types: { getTypeParser: (oid: number) => parserOf(oid) },
  });
  pool.on("error", () => {});
  const connection = new PostgresConnection({ url: databaseUrl });
  connection.kysely = new Kysely({ dialect: poolDialect(pool) });
  try {
    // Checks the connection first, since introspect() reports a failure as an empty schema.
    await pool.query("select 1");
    const schema = await connection.introspect({ useCache: false });
    if (!schema.functions) throw new Error("The database could not be asked for its schema");
    return schema;
  } finally {
    await pool.end();
  }
}

function uniqueBy<T>(items: T[], key: (item: T) => string): T[] {
  return [...new Map(items.map((item) => [key(item), item])).values()];
}
