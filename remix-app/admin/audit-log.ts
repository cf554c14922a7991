import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { utcDay } from "#shared/utc-time.ts";
import type { CsvColumn } from "../http/csv.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { buildDatabaseClaims } from "../session/approval-proof.ts";
import { callFunction } from "../supabase/data-api.ts";
import { actionLabel } from "./audit-actions.ts";
import { type FieldChange, listChanges, withoutSecrets } from "./audit-change.ts";
import { summarizeChange } from "./audit-summary.ts";
import { getTargetPath } from "./audit-target.ts";

export const lineSchema = z.array(
  z.object({
    id: z.uuid(),
    /** An email address, or the label of a service account. */
    actorEmail: z.string().nullable(),
    /** The service account that acted; null for a person. */
    serviceAccountId: z.uuid().nullable(),
    action: z.string(),
    targetUserId: z.uuid().nullable(),
    target: z.string().nullable(),
    /** The name at the time of the change, or the current one if none was recorded. */
    targetName: z.string().nullable(),
    /** The kind of page that the target has, with its id; null if it has none. */
    targetKind: z.string().nullable(),
    targetId: z.string().nullable(),
    reason: z.string(),
    before: z.unknown(),
    after: z.unknown(),
    requestId: z.string().nullable(),
    ip: z.string().nullable(),
    createdAt: z.string(),
  }),
);
export type AuditLine = z.infer<typeof lineSchema>[number];

/** Excludes the last representable date, because the filter needs the day after. */
const day = utcDay.refine((text) => text < "9999-12-31");
const text = z.string().trim().max(320);

/** Filters of the audit log as in the URL; invalid values are dropped. Days are UTC. */
const filterSchema = z.object({
  actor: text.catch(""),
  target: text.catch(""),
  action: text.regex(/^[a-z_.]*$/).catch(""),
  from: day.or(z.literal("")).catch(""),
  to: day.or(z.literal("")).catch(""),
});
export type AuditFilters = z.infer<typeof filterSchema>;

const linesPerPage = 50;
/**
 * The number of lines that each read fetches for a CSV file. Fewer than for other records, because each line holds the
 * full state before and after.
 */
export const linesPerRead = 1_000;

/** Reads the filters from a URL. */
export function readAuditFilters(url: URL): AuditFilters {
  const of = (name: string) => (url.searchParams.get(name) ?? "").replaceAll("\0", "");
  const names = ["actor", "target", "action", "from", "to"];
  return filterSchema.parse(Object.fromEntries(names.map((name) => [name, of(name)])));
}

/** Returns the filters as query parameters. */
export function writeAuditFilters(filters: AuditFilters): URLSearchParams {
  return new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ""));
}

/**
 * Returns a page of the audit log, newest first. Each read checks that the admin still has access, so a download stops
 * when the admin loses access.
 * @param options.serviceAccount the service account that reads the log; by default the person with the session does
 * @throws Response 400 INVALID_REQUEST for an invalid cursor
 * @throws Response 403 FORBIDDEN if the session ended or no longer belongs to an admin with a second factor
 * @throws Response 503 UNAVAILABLE
 */
export async function readAuditLog(
  context: AppLoadContext,
  {
    filters,
    cursor,
    limit = linesPerPage,
    serviceAccount = null,
  }: { filters: AuditFilters; cursor: string | null; limit?: number; serviceAccount?: string | null },
): Promise<{ lines: AuditLine[]; nextCursor: string | null }> {
  const { auth } = context.session;
  const before = parseCursor(cursor, { read: readCursor, requestId: context.requestId });
  const { actor, target, action, from, to } = filters;
  const args = {
    reader: auth.status === "authenticated" ? buildDatabaseClaims(context, auth.claims) : {},
    filters: {
      ...(actor ? { actor } : {}),
      ...(target ? { target } : {}),
      ...(action ? { action } : {}),
      ...(from ? { from: `${from}T00:00:00Z` } : {}),
      ...(to ? { to: dayAfter(to) } : {}),
    },
    before,
    page_size: limit + 1,
    ...(serviceAccount === null ? {} : { service_account: serviceAccount }),
  };
  const found = await callFunction(context, { name: "private.search_audit_log", args, schema: lineSchema.nullable() });
  if (found === null) {
    throw problem("FORBIDDEN", {
      requestId: context.requestId,
      detail: "Only platform administrators can use the admin console.",
    });
  }
  const { records: lines, nextCursor } = buildPage(found, { limit, cursorOf: writeCursor });
  return { lines, nextCursor };
}

/** Returns the start of the next day, so that the filter includes all of the last day. */
function dayAfter(day: string): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + 24 * 60 * 60 * 1000).toISOString();
}

/** Columns of the log's CSV file. New ones are added at the end, because its readers may rely on the order. */
export const auditColumns: readonly CsvColumn<AuditLine>[] = [
  { name: "time", value: (line) => line.createdAt },
  { name: "actor", value: (line) => line.actorEmail },
  { name: "action", value: (line) => line.action },
  { name: "target", value: (line) => line.target ?? line.targetUserId },
  { name: "reason", value: (line) => line.reason },
  { name: "before", value: (line) => jsonText(line.before) },
  { name: "after", value: (line) => jsonText(line.after) },
  { name: "ip", value: (line) => line.ip },
  { name: "request_id", value: (line) => line.requestId },
  { name: "action_label", value: (line) => actionLabel(line.action) },
  { name: "target_name", value: (line) => line.targetName },
  { name: "summary", value: summarizeChange },
  { name: "service_account_id", value: (line) => line.serviceAccountId },
];

function jsonText(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value, withoutSecrets);
}

/** An entry as the page shows it: without the states, which may be large. */
export interface AuditEntry extends Omit<AuditLine, "before" | "after" | "targetKind" | "targetId"> {
  targetPath: string | null;
  summary: string | null;
  changes: FieldChange[];
}

/** Prepares a line of the log for the page. */
export function describeEntry({ before, after, targetKind, targetId, ...line }: AuditLine): AuditEntry {
  return {
    ...line,
    targetPath: getTargetPath({ targetUserId: line.targetUserId, targetKind, targetId }),
    summary: summarizeChange({ action: line.action, before, after }),
    changes: listChanges({ before, after }),
  };
}
