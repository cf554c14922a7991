import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import type { AuditedChange } from "../../studio/costs/platform-book.ts";
import { openPointKinds } from "../../studio/costs/reconciliation.ts";
import { callAsMember, type StudioMember } from "../../studio/studio-reader.ts";
import { amountText } from "../../ui/format-amount.ts";

/** Enough to list the records of a month with a hundred thousand imported costs. */
const timeoutMs = 30_000;

const count = z.number().int();
const figuresSchema = z.object({
  provider: z.string(),
  meteredUsd: amountText,
  importedUsd: amountText,
  invoicedUsd: amountText,
  runs: count,
  importedRecords: count,
  invoices: count,
});

export type ProviderFigures = z.output<typeof figuresSchema>;

/** What is open in a provider's month when it is closed. */
const openPointSchema = z.object({
  provider: z.string(),
  kind: z.enum(openPointKinds),
  meteredUsd: amountText,
  importedUsd: amountText,
  invoicedUsd: amountText,
  /** The missing or unmetered amount, or the difference. */
  amountUsd: amountText,
});
export type OpenPoint = z.output<typeof openPointSchema>;

export const accountFigures = figuresSchema.extend({ accountId: z.string().nullable() });
export type AccountFigures = z.output<typeof accountFigures>;

export const summarySchema = z.object({
  id: z.uuid(),
  /** YYYY-MM */
  month: z.string(),
  version: count,
  /** Emails are null once the account is deleted. */
  closedBy: z.string().nullable(),
  closedAt: z.string(),
  /** Of the records, in hexadecimal. */
  sha256: z.string(),
  exceptions: count,
  reopened: z.object({ by: z.string().nullable(), at: z.string(), reason: z.string() }).nullable(),
});
export type StatementSummary = z.output<typeof summarySchema>;

export const exceptionSchema = openPointSchema.extend({ reason: z.string() });
export type StatementException = z.output<typeof exceptionSchema>;

export const statementSchema = z.object({
  outcome: z.literal("read"),
  statement: summarySchema,
  figures: z.array(accountFigures),
  exceptions: z.array(exceptionSchema),
  /** Lines of nine fields that are separated by tabs, for files; null for pages. */
  records: z.string().nullable(),
  /** What the closed month's records are now; null for files and reopened months. */
  after: z.object({ sha256: z.string(), differences: z.array(accountFigures) }).nullable(),
});
export type Statement = z.output<typeof statementSchema>;

/** Reopens the month of a statement. @throws Response 403, 404, 503 */
export async function reopenMonth(
  context: AppLoadContext,
  { member, id, change }: { member: StudioMember; id: string; change: AuditedChange },
): Promise<"reopened" | "not_closed"> {
  const schema = z.object({ outcome: z.enum(["reopened", "not_closed", "not_found"]) });
  const args = { statement_id: requireStatementId(context, id), change };
  const { outcome } = await callStatements(context, { member, name: "reopen_month", args, schema });
  if (outcome === "not_found") throw notFound(context);
  return outcome;
}

/** The statements on a page. */
const statementsShown = 12;

/**
 * Returns a page of statements, the latest month first, and whether a month is closed.
 * @throws Response 400 for a cursor that is not ours, 403, 503
 */
export async function listStatements(
  context: AppLoadContext,
  { member, month, cursor }: { member: StudioMember; month: string; cursor: string | undefined },
) {
  const schema = z.object({ outcome: z.literal("listed"), isClosed: z.boolean(), records: z.array(summarySchema) });
  const after = parseCursor(cursor, { read: readPosition, requestId: context.requestId });
  const args = { of_month: month, after, page_size: statementsShown + 1 };
  const { isClosed, records } = await callStatements(context, { member, name: "list_statements", args, schema });
  const cursorOf = ({ month, version }: StatementSummary) => writeKeyCursor([month, String(version)]);
  return { isClosed, ...buildPage(records, { limit: statementsShown, cursorOf }) };
}

function readPosition(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  const isValid = /^(?!0000)\d{4}-(0[1-9]|1[0-2])$/.test(position?.[0] ?? "") && /^\d{1,9}$/.test(position?.[1] ?? "");
  return isValid ? position : null;
}

/**
 * Returns a statement: with its records for a file, otherwise with what changed after the close.
 * @throws Response 403, 404, 503
 */
export async function requireStatement(
  context: AppLoadContext,
  { member, id, withRecords }: { member: StudioMember; id: string | undefined; withRecords: boolean },
): Promise<Statement> {
  const schema = z.union([statementSchema, z.object({ outcome: z.literal("not_found") })]);
  const args = { statement_id: requireStatementId(context, id), with_records: withRecords };
  const answer = await callStatements(context, { member, name: "read_statement", args, schema });
  if (answer.outcome === "not_found") throw notFound(context);
  return answer;
}

/** Calls a function for the months of the platform's book. @throws Response 403, 503 */
export async function callStatements<Schema extends z.ZodType<{ outcome: string }>>(
  context: AppLoadContext,
  { schema, ...call }: { member: StudioMember; name: string; args: object; schema: Schema },
): Promise<z.output<Schema>> {
  const refused = z.object({ outcome: z.literal("not_allowed") });
  const answer = await callAsMember(context, { ...call, schema: z.union([schema, refused]), timeoutMs });
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
  return answer as z.output<Schema>;
}

function requireStatementId(context: AppLoadContext, id: string | undefined): string {
  if (!z.uuid().safeParse(id).success) throw notFound(context);
  return id ?? "";
}

function notFound({ requestId }: AppLoadContext): Response {
  return problem("NOT_FOUND", { requestId, detail: "This statement doesn’t exist." });
}
