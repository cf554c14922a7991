import type { AnyAST, ConnectionContextOptions, VarsContext } from "@supabase/lite";
import { PostgresConnection } from "@supabase/lite/postgres";
import { CompiledQuery, Kysely } from "kysely";
import pg from "pg";
import { databaseErrorResponse, unfilteredChange } from "./error-responses.ts";
import { poolDialect } from "./pool-dialect.ts";
import { requestContext, roleOf } from "./request-context.ts";
import { isReadOnly, isUnfiltered } from "./request-rules.ts";
import { type Introspection, readSchema } from "./schema-cache.ts";
import { type RoleSettings, readRoleSettings, roleSettingsQuery, sessionSettings } from "./session-settings.ts";
import { settleValues } from "./values.ts";
import { type ElementTypes, parserOf } from "./wire-types.ts";

const poolSize = 20;
const connectTimeoutMs = 5_000;
/** Idle connections stay open this long, since a new one must read the catalogue and compile functions again. */
const idleTimeoutMs = 60_000;
/** An unknown name reloads the schema only if the last reload is older than this. */
const reloadCooldownMs = 1_000;
const elementTypesQuery = CompiledQuery.raw(
  "select typarray::int as array, oid::int as element from pg_catalog.pg_type where typarray <> 0 and typtype in ('e', 'd')",
);

/** A table, view or function, as named by a request. */
export type Target = { schema: string; name: string; isFunction: boolean };

type Database = PostgresConnection["kysely"];

class Rollback {
  readonly response: unknown;
  constructor(response: unknown) {
    this.response = response;
  }
}

/**
 * Connects the Data API to Postgres: each request is one transaction of role `authenticator` that takes the caller's
 * role and claims. When first used, the parent class would grant the API's roles every privilege on each schema that
 * has tables with row-level security. This class never changes the catalogue.
 */
export class RequestRoleConnection extends PostgresConnection {
  private readonly databaseUrl: string;
  private readonly schemas: readonly string[];
  private roleSettings: RoleSettings = new Map();
  private elementTypes: ElementTypes = new Map();
  private loading: Promise<Introspection> | undefined;
  private loadedAt = 0;

  constructor(databaseUrl: string, schemas: readonly string[]) {
    super({ url: databaseUrl });
    this.databaseUrl = databaseUrl;
    this.schemas = schemas;
    const pool = new pg.Pool({
      connectionString: databaseUrl,
      max: poolSize,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: idleTimeoutMs,
      application_name: "data-api",
      options: "-c TimeZone=UTC",
      types: { getTypeParser: (oid: number) => parserOf(oid, this.elementTypes) },
    });
    pool.on("error", () => {});
    this.kysely = new Kysely({ dialect: poolDialect(pool) });
  }

  /** Returns the schema as last read, or reads it the first time. @throws Error if the database cannot be reached */
  override async introspect(options?: { useCache?: boolean }): Promise<Introspection> {
    if (options?.useCache && this.introspection) return this.introspection;
    return this.reload();
  }

  /** Reads the schema and the roles' settings again. Concurrent callers share one read. */
  reload(): Promise<Introspection> {
    this.loading ??= this.load().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  /**
   * Checks whether a request's target exists. If it is missing, reads the schema again, since a migration may have just
   * created it.
   * @returns the existing names if the target does not exist
   * @throws Error if the database cannot be reached
   */
  async findTarget(target: Target): Promise<{ found: true } | { found: false; others: string[] }> {
    const named = namesOf(await this.introspect({ useCache: true }), target);
    if (named.includes(target.name)) return { found: true };
    if (Date.now() - this.loadedAt < reloadCooldownMs) return { found: false, others: named };
    const others = namesOf(await this.reload(), target);
    return others.includes(target.name) ? { found: true } : { found: false, others };
  }

  override async onPostgrestAST(ast: AnyAST): Promise<AnyAST> {
    const plan = settleValues(ast, await this.introspect({ useCache: true }));
    const context = requestContext.getStore();
    if (context) context.plan = plan;
    return plan;
  }

  /** Runs a request's statements in a separate transaction as the caller, and turns errors into responses. */
  override async withContext<T>(
    _vars: VarsContext | undefined,
    run: (db: Database) => Promise<T>,
    options?: ConnectionContextOptions,
  ): Promise<T> {
    const context = requestContext.getStore();
    if (!context) throw new Error("A statement outside any request");
    const { plan } = context;
    if (plan && isUnfiltered(plan)) return unfilteredChange(plan) as T;
    const readOnly = isReadOnly(context, await this.introspect({ useCache: true }));
    try {
      return await this.kysely.transaction().execute(async (transaction) => {
        await transaction.executeQuery(sessionSettings(context, { roleSettings: this.roleSettings, readOnly }));
        const result = await run(transaction);
        if (isRefusal(result, options?.rpc !== undefined)) throw new Rollback(result);
        return result;
      });
    } catch (error) {
      if (error instanceof Rollback) return error.response as T;
      const response = databaseErrorResponse(error, { role: roleOf(context) });
      if (!response) throw error;
      return response as T;
    }
  }

  override async close(): Promise<void> {
    await this.kysely.destroy();
  }

  private async load(): Promise<Introspection> {
    const [schema, settings, elementTypes] = await Promise.all([
      readSchema(this.databaseUrl, this.schemas),
      this.kysely.executeQuery(roleSettingsQuery),
      this.kysely.executeQuery<{ array: number; element: number }>(elementTypesQuery),
    ]);
    this.roleSettings = readRoleSettings(settings.rows);
    this.elementTypes = new Map(elementTypes.rows.map(({ array, element }) => [array, element]));
    this.introspection = schema;
    this.loadedAt = Date.now();
    return schema;
  }
}

function namesOf({ functions = [], tables, views }: Introspection, { schema, isFunction }: Target): string[] {
  const entries: { schema?: string; name: string }[] = isFunction ? functions : [...tables, ...views];
  return entries.filter((entry) => entry.schema === schema).map(({ name }) => name);
}

/**
 * Reports whether a response refuses a statement that has already run, which must then be rolled back (PGRST116,
 * PGRST124 and similar). A function may set any status and still intend its changes, so for functions only 406 counts.
 */
function isRefusal(result: unknown, isFunction: boolean): boolean {
  if (!(result instanceof Response)) return false;
  return isFunction ? result.status === 406 : result.status >= 400;
}
