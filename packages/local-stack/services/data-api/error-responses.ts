import { fuzzyMatch } from "@supabase/lite";
import pg from "pg";
import { ConnectionLostError } from "./pool-dialect.ts";

/** Matches the SQLSTATEs of a server that is starting or stopping, or that has ended our session. */
const serverGone = /^(?:08|57P0[1-3])/;

/** HTTP status by SQLSTATE, first match wins (PostgREST, references/errors, "HTTP Status Codes"). */
const statusBySqlState: [RegExp, number][] = [
  [/^09/, 500],
  [/^0[LP]/, 403],
  [/^2350[35]$/, 409],
  [/^25006$/, 405],
  [/^25/, 500],
  [/^28/, 403],
  [/^(?:2D|38|39|3B|40)/, 500],
  [/^53400$/, 500],
  [/^53/, 503],
  [/^54/, 413],
  [/^(?:55|57|58|F0|HV)/, 500],
  [/^P0001$/, 400],
  [/^(?:P0|XX)/, 500],
  [/^42(?:883|P01)$/, 404],
  [/^42P17$/, 500],
];

type ErrorBody = { code: string; message: string; details: string | null; hint: string | null };

/** Creates an error response in PostgREST's shape. */
function errorResponse(status: number, body: ErrorBody, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers });
}

/** Creates the response for a lost connection: the database is down, starting, or was restarted. */
function connectionLost(): Response {
  return errorResponse(
    503,
    { code: "PGRST000", message: "Database connection error. Retrying.", details: null, hint: null },
    { "retry-after": "1" },
  );
}

/** Creates the response for a schema that could not be read: the database's tables and functions are not known yet. */
export function schemaUnavailable(): Response {
  return errorResponse(
    503,
    {
      code: "PGRST002",
      message: "Could not query the database for the schema cache. Retrying.",
      details: null,
      hint: null,
    },
    { "retry-after": "1" },
  );
}

/** Creates the response for a table or view that does not exist or that none of the API's roles may see. */
export function unknownTable({ schema, name }: { schema: string; name: string }, others: string[]): Response {
  const similar = fuzzyMatch(name, others);
  return errorResponse(404, {
    code: "PGRST205",
    message: `Could not find the table '${schema}.${name}' in the schema cache`,
    details: null,
    hint: similar ? `Perhaps you meant the table '${schema}.${similar}'` : null,
  });
}

/** Creates the response that the extension `safeupdate` causes for a change without a filter. */
export function unfilteredChange({ type = "" }: { type?: string }): Response {
  const message = `${type.toUpperCase()} requires a WHERE clause`;
  return errorResponse(400, { code: "21000", message, details: null, hint: null });
}

/**
 * Translates a failed statement into the response for the client.
 * @returns undefined if the error is not the database's
 */
export function databaseErrorResponse(error: unknown, { role }: { role: string }): Response | undefined {
  if (error instanceof ConnectionLostError) return connectionLost();
  if (!(error instanceof pg.DatabaseError)) return undefined;
  const { code = "" } = error;
  if (serverGone.test(code)) return connectionLost();
  if (code === "PGRST") return customErrorResponse(error);
  const body = { code, message: error.message, details: error.detail ?? null, hint: error.hint ?? null };
  const status = statusOf(error, role);
  return errorResponse(status, body, status === 401 ? { "www-authenticate": "Bearer" } : {});
}

function statusOf({ code = "", message }: pg.DatabaseError, role: string): number {
  if (code === "42501") return role === "anon" ? 401 : 403;
  if (code === "21000") return message.endsWith("requires a WHERE clause") ? 400 : 500;
  if (code === "22023" && /^role .* does not exist$/.test(message)) return 401;
  if (code.startsWith("PT")) {
    const status = Number(code.slice(2));
    return status >= 200 && status <= 599 ? status : 500;
  }
  return statusBySqlState.find(([pattern]) => pattern.test(code))?.[1] ?? 400;
}

/** Handles `raise sqlstate 'PGRST'`, whose message and detail are JSON that describe the whole response. */
function customErrorResponse(error: pg.DatabaseError): Response {
  try {
    const { code, message, details = null, hint = null } = JSON.parse(error.message);
    const { status, headers } = JSON.parse(error.detail ?? "");
    return errorResponse(status, { code, message, details, hint }, headers);
  } catch {
    return errorResponse(500, {
      code: "PGRST121",
      message: `Could not parse JSON in the "RAISE SQLSTATE 'PGRST'" error`,
      details: null,
      hint: "MESSAGE must be a JSON object with 'code' and 'message', DETAIL one with 'status' and 'headers'.",
    });
  }
}
