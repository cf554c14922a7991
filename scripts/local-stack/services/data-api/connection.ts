import type { ConnectionContextOptions, VarsContext } from "@supabase/lite";
import { PostgresConnection } from "@supabase/lite/postgres";
import { databaseErrorResponse } from "./error-responses.ts";
import { requestContext, roleOf } from "./request-context.ts";
import { type Introspection, readSchema } from "./schema-cache.ts";
import { type RoleSettings, readRoleSettings, roleSettingsQuery, sessionSettings } from "./session-settings.ts";
import { jsonWireTypes } from "./wire-types.ts";

const poolSize = 20;
const connectTimeoutSeconds = 5;
/** How long a query in progress may go on when the connection is closed. */
const closeTimeoutSeconds = 1;
/** A schema that was read less than this ago is not read again because a request names something unknown. */
const reloadCooldownMs = 1_000;

type Database = PostgresConnection["kysely"];

class Rollback {
  readonly response: unknown;
  constructor(response: unknown) {
    this.response = response;
  }
}

/**
 * The Data API's way to Postgres: each request is one transaction of role `authenticator` that takes the caller's role
 * and claims. Its parent class would grant every privilege on every schema with row-level security to the API's roles
 * on first use; here nothing of the catalogue is ever changed.
 */
export class RequestRoleConnection extends PostgresConnection {
  private readonly databaseUrl: string;
  private roleSettings: RoleSettings = new Map();
  private loading: Promise<Introspection> | undefined;
  private loadedAt = 0;

  constructor(databaseUrl: string) {
    super({
      url: databaseUrl,
      postgresOptions: {
        max: poolSize,
        connect_timeout: connectTimeoutSeconds,
        backoff: () => 0.1,
        onnotice: () => {},
        connection: { application_name: "data-api" },
        types: jsonWireTypes,
      },
    });
    this.databaseUrl = databaseUrl;
  }

  /** The schema as last read, or as read now where it never was. @throws Error when the database cannot be reached */
  override async introspect(options?: { useCache?: boolean }): Promise<Introspection> {
    if (options?.useCache && this.introspection) return this.introspection;
    return this.reload();
  }

  /** Reads the schema and the roles' settings again; callers at the same time share one reading. */
  reload(): Promise<Introspection> {
    this.loading ??= this.load().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  /** Makes the next request read the schema again. */
  forgetSchema(): void {
    this.introspection = undefined;
  }

  /** Reads the schema again where it lacks what a request names: a migration may have just made it. */
  async ensureKnown({
    schema,
    name,
    isFunction,
  }: {
    schema: string;
    name: string;
    isFunction: boolean;
  }): Promise<void> {
    const known = await this.introspect({ useCache: true });
    const lists = isFunction ? [known.functions ?? []] : [known.tables, known.views];
    if (lists.some((list) => list.some((entry) => entry.schema === schema && entry.name === name))) return;
    if (Date.now() - this.loadedAt >= reloadCooldownMs) await this.reload();
  }

  /** Runs a request's statements in a transaction of its own that is the caller's, and answers for its errors. */
  override async withContext<T>(
    _vars: VarsContext | undefined,
    run: (db: Database) => Promise<T>,
    options?: ConnectionContextOptions,
  ): Promise<T> {
    const context = requestContext.getStore();
    if (!context) throw new Error("A statement outside any request");
    try {
      return await this.kysely.transaction().execute(async (transaction) => {
        await transaction.executeQuery(sessionSettings(context, this.roleSettings));
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
    await this.driver.end({ timeout: closeTimeoutSeconds });
  }

  private async load(): Promise<Introspection> {
    const [schema, settings] = await Promise.all([
      readSchema(this.databaseUrl),
      this.kysely.executeQuery(roleSettingsQuery),
    ]);
    this.roleSettings = readRoleSettings(settings.rows);
    this.introspection = schema;
    this.loadedAt = Date.now();
    return schema;
  }
}

/**
 * Whether an answer refuses what has already run, so that it must leave no trace (PGRST116, PGRST124 and the like).
 * A function may set any status itself and still mean what it did, so from those only 406 counts.
 */
function isRefusal(result: unknown, isFunction: boolean): boolean {
  if (!(result instanceof Response)) return false;
  return isFunction ? result.status === 406 : result.status >= 400;
}
