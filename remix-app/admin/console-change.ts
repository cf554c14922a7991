import type { AppLoadContext } from "@remix-run/node";
import type { PostgrestError } from "@supabase/supabase-js";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { collapseWhitespace } from "../http/collapse-whitespace.ts";
import { formatDateTime } from "../http/date-text.ts";
import { hasVisibleCharacter } from "../http/readable.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/**
 * The result of a change in the console. A refusal has the message and status to answer with. A change that created
 * something without a name of its own has its `id`.
 */
export type ConsoleChange = { outcome: "changed"; repeated?: boolean; id?: string } | ConsoleRefusal;

export type ConsoleRefusal = {
  outcome: "refused";
  status: 400 | 403 | 404 | 409 | 503;
  message: string;
  /** The form field that the refusal is about, if any. */
  field?: "confirmation" | "amount" | "reference" | "email";
  /** The part of a change of several parts that was refused, as the database function names it. */
  part?: string;
};

const maxReasonLength = 500;

export const reasonSchema = z
  .string({ error: "Enter a reason" })
  .trim()
  .min(1, "Enter a reason")
  .max(maxReasonLength, `Enter at most ${maxReasonLength} characters`)
  .refine(hasVisibleCharacter, "Enter a reason");

/** The form of every change to an account: the reason, and the account's email typed again. */
export const confirmedChangeSchema = z.object({
  reason: reasonSchema,
  confirmation: z.string({ error: "Type the email to confirm" }).trim(),
});

/**
 * Returns whether an admin has typed the name of the account or other object to confirm a change. Ignores case and
 * differences in whitespace.
 */
export function isConfirmed(confirmation: string, name: string): boolean {
  return (
    collapseWhitespace(name) !== "" &&
    collapseWhitespace(confirmation).toLowerCase() === collapseWhitespace(name).toLowerCase()
  );
}

export const notConfirmed: ConsoleRefusal = {
  outcome: "refused",
  status: 400,
  message: "That isn’t this account’s email. Nothing was changed.",
  field: "confirmation",
};

export const unavailable: ConsoleRefusal = {
  outcome: "refused",
  status: 503,
  message: "The database didn’t respond. The change may have been made: check the audit log before you try again.",
};

/** The refusal for a reason that only a later version of this server knows. */
export const unknownRefusal: ConsoleRefusal = {
  outcome: "refused",
  status: 409,
  message: "The change was refused for a reason that this page doesn’t know. Nothing was changed. Reload the page.",
};

/** Calls one of the console's database functions as our server. */
export async function callConsole(
  { env, requestId }: AppLoadContext,
  { name, args }: { name: string; args: Record<string, unknown> },
): Promise<{ data: unknown; error: PostgrestError | null }> {
  const { data, error } = await createServiceClient(env).schema("private").rpc(name, args);
  if (error) logError(`the console's ${name} failed: ${error.code}`, { requestId });
  return { data, error };
}

type Refusals = Record<string, Omit<ConsoleRefusal, "outcome">>;

const answerSchema = z.object({
  refused: z.string().optional(),
  part: z.string().optional(),
  /** The reference was used before, so nothing changed. */
  repeated: z.boolean().optional(),
  id: z.uuid().optional(),
  last: z.object({ actorEmail: z.string().nullable(), at: z.coerce.date() }).nullish(),
});

const commonRefusals: Refusals = {
  forbidden: { status: 403, message: "Only platform administrators can use the admin console." },
};

/**
 * Makes a change in the database on behalf of an admin and returns the function's full answer.
 * @returns null if the answer is missing or malformed; the change may have been made
 */
async function submitChange<Schema extends z.ZodType>(
  context: AppLoadContext,
  options: { admin: InfrastructureAdmin; name: string; change: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema> | null> {
  const { admin, name, change, schema } = options;
  const { requestId, clientAddress: ip } = context;
  const args = { change: { ...change, actor: admin.id, requestId, ip } };
  const { data, error } = await callConsole(context, { name, args });
  const answer = schema.safeParse(data);
  return error || !answer.success ? null : answer.data;
}

/**
 * Makes a change in the database on behalf of an admin, and records it in the audit log.
 * @param options.refusals messages for the database function's own refusals, except conflicts. The message for a
 * conflict names the admin who made the earlier change.
 */
export async function applyConsoleChange(
  context: AppLoadContext,
  {
    admin,
    name,
    change,
    refusals,
  }: { admin: InfrastructureAdmin; name: string; change: Record<string, unknown>; refusals: Refusals },
): Promise<ConsoleChange> {
  const answer = await submitChange(context, { admin, name, change, schema: answerSchema });
  if (answer === null) return unavailable;
  const { refused, repeated, id, last, part } = answer;
  if (refused === undefined) {
    return { outcome: "changed", ...(repeated && { repeated }), ...(id !== undefined && { id }) };
  }
  if (refused === "conflict") {
    const changedBy = last
      ? `${last.actorEmail ?? "The operator"} changed it on ${formatDateTime(last.at)}`
      : "It was changed";
    const message = `${changedBy}, after you opened this page. Nothing was changed. Review it again.`;
    return { outcome: "refused", status: 409, message, ...(part === undefined ? {} : { part }) };
  }
  const refusal = refusals[refused] ?? commonRefusals[refused] ?? unknownRefusal;
  return { ...refusal, outcome: "refused", ...(part === undefined ? {} : { part }) };
}
