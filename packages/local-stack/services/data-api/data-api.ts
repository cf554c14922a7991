import { App } from "@supabase/lite";
import { RequestRoleConnection, type Target } from "./connection.ts";
import { schemaUnavailable, unknownTable } from "./error-responses.ts";
import { type RequestContext, requestContext } from "./request-context.ts";
import { watchSchema } from "./schema-watch.ts";

/** Maximum rows in one response, as in a new hosted project. */
const maxRows = 1_000;

export type DataApiCaller = { kind: "publishable" | "secret"; claims: Record<string, unknown> };
export type DataApi = {
  /** Serves a request for a caller with verified claims. Ignores the request's own credentials. */
  handle: (request: Request, options: { url: URL; caller: DataApiCaller }) => Promise<Response>;
  close: () => Promise<void>;
};

/**
 * Creates an API that serves a Postgres database like PostgREST, with paths below `/rest/v1`. Connects as role
 * `authenticator`.
 */
export function createDataApi({ databaseUrl, schemas }: { databaseUrl: string; schemas: string[] }): DataApi {
  const connection = new RequestRoleConnection(databaseUrl, schemas);
  const [defaultSchema = "public"] = schemas;
  const app = new App({
    connection,
    auth: { enabled: false },
    api: { enabled: true, schemas, max_rows: maxRows },
    options: {
      server: {
        disableStudio: true,
        disableFallback: true,
        apiKeys: {
          resolver: async (kind) => ({ type: kind === "secret" ? "secret" : "publishable", claims: callerClaims() }),
        },
      },
    },
  });
  const endWatch = watchSchema(databaseUrl, () => {
    // If the database is unreachable, the last known schema stays in use. `watchSchema` calls back again when it
    // reconnects.
    connection.reload().catch(() => undefined);
  });
  return {
    async handle(request, { url, caller }) {
      const headers = new Headers(request.headers);
      headers.delete("authorization");
      headers.set("apikey", caller.kind);
      const schema = profileOf(request) ?? defaultSchema;
      const target = schemas.includes(schema) ? targetOf(url.pathname, schema) : undefined;
      try {
        const search = target && (await connection.findTarget(target));
        if (target && !target.isFunction && search?.found === false) return unknownTable(target, search.others);
      } catch {
        return schemaUnavailable();
      }
      const context: RequestContext = {
        claims: caller.claims,
        method: request.method,
        path: url.pathname.slice("/rest/v1".length),
        headers: Object.fromEntries(headers),
        schema,
      };
      return requestContext.run(context, async () => app.fetch(await copyRequest(request, url, headers)));
    },
    async close() {
      await endWatch();
      await connection.close();
    },
  };
}

function callerClaims(): Record<string, unknown> {
  const context = requestContext.getStore();
  if (!context) throw new Error("A key outside any request");
  return context.claims;
}

async function copyRequest(request: Request, url: URL, headers: Headers): Promise<Request> {
  const body = request.method === "GET" || request.method === "HEAD" ? undefined : await request.arrayBuffer();
  return new Request(url, { method: request.method, headers, body });
}

/** Returns the schema that a request names: in one header for reads, in another for writes. */
function profileOf({ method, headers }: Request): string | undefined {
  const name = method === "GET" || method === "HEAD" ? "accept-profile" : "content-profile";
  return headers.get(name) ?? undefined;
}

function targetOf(pathname: string, schema: string): Target | undefined {
  const [, isFunction, name] = pathname.match(/^\/rest\/v1\/(rpc\/)?([^/]+)$/) ?? [];
  return name === undefined ? undefined : { schema, name: decode(name), isFunction: isFunction !== undefined };
}

/** Decodes a name. A name that is not valid text is returned as it is, and matches nothing. */
function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
