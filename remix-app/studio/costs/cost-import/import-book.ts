import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../../http/problem.ts";
import { callAsMember, isUnavailable, readStudio, type StudioMember } from "../../studio-reader.ts";
import type { AuditedChange } from "../platform-book.ts";
import { type ImportReceipt, importAnswer, importReceipt, previewAnswer } from "./import-answers.ts";

/** Enough to import a year of costs in many accounts. The database compares and writes each day separately. */
const timeoutMs = 30_000;

const refusalAnswerSchema = z.object({ outcome: z.enum(["not_allowed", "app_not_linked"]) });

/** The book and the app of an import, and the person who imports. */
export interface ImportTarget {
  member: StudioMember;
  appId: string;
}

/**
 * Compares an import with a book. The document is JSON, which stays text until it reaches the database, because parsing
 * a large one would hold the event loop.
 * @throws Response 403, 503
 */
export function previewImport(context: AppLoadContext, { document, ...target }: ImportTarget & { document: string }) {
  return callImport(context, { ...target, name: "preview_cost_import", args: { document }, schema: previewAnswer });
}

/**
 * Stores an import, unless the book has changed since the given state.
 * @param options.change what the audit log records, for the platform's book
 * @throws Response 403; 503, which says that the costs may be stored
 */
export async function storeImport(
  context: AppLoadContext,
  {
    member,
    appId,
    change,
    ...file
  }: ImportTarget & { document: string; state: string; change: AuditedChange | undefined },
) {
  const args = { ...file, ...(change ? { change } : {}) };
  try {
    return await callImport(context, { member, appId, name: "import_cost_file", args, schema: importAnswer });
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    const detail = "The database didn’t respond. Upload the file again to see whether its costs were stored.";
    throw problem("UNAVAILABLE", { requestId: context.requestId, detail });
  }
}

async function callImport<Schema extends z.ZodType<{ outcome: string }>>(
  context: AppLoadContext,
  { member, appId, name, args, schema }: ImportTarget & { name: string; args: object; schema: Schema },
) {
  const answer = await callAsMember(context, {
    member,
    name,
    args: { app: appId, ...args },
    schema: z.union([schema, refusalAnswerSchema]),
    timeoutMs,
  });
  const { outcome } = answer as { outcome: string };
  if (outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
  if (outcome === "app_not_linked") {
    return { outcome: "invalid" as const, param: "form", message: "The app is no longer linked to this workspace." };
  }
  return answer as z.output<Schema>;
}

/**
 * Reads the receipt of an import.
 * @throws Response 403, 404, 503
 */
export async function requireImport(
  context: AppLoadContext,
  { member, importId = "" }: { member: StudioMember; importId: string | undefined },
): Promise<ImportReceipt> {
  const notFound = () => problem("NOT_FOUND", { requestId: context.requestId, detail: "This import doesn’t exist." });
  if (!z.uuid().safeParse(importId).success) throw notFound();
  const answer = await readStudio(context, {
    reader: member,
    name: "read_cost_import",
    args: { import_id: importId },
    schema: z.union([importReceipt, z.object({ outcome: z.literal("not_found") })]),
  });
  if (answer.outcome === "not_found") throw notFound();
  return answer;
}
