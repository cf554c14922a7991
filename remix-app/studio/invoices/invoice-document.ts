import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import type { AuditedChange } from "../costs/platform-book.ts";
import { callAsMember, readStudio, type StudioMember } from "../studio-reader.ts";
import { maxDocumentMiB } from "./invoice-facts.ts";

const maxDocumentBytes = maxDocumentMiB * 1024 * 1024;
/** The limits of a form with a document. */
export const documentFormLimits = { maxBytes: maxDocumentBytes + 64 * 1024, files: true };
/** Enough to send or receive a document of the maximum size. */
const timeoutMs = 30_000;

export interface InvoiceDocument {
  fileName: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads the document of a form, or returns what is wrong with it. Returns null if no file was chosen: browsers then send an
 * empty file without a name.
 */
export async function readDocument(form: FormData): Promise<InvoiceDocument | { error: string } | null> {
  const file = form.get("document");
  if (!(file instanceof File) || (file.size === 0 && file.name === "")) return null;
  if (file.size === 0) return { error: "The file is empty" };
  if (file.size > maxDocumentBytes) return { error: `The file is larger than ${maxDocumentMiB} MiB` };
  const bytes = new Uint8Array(await file.arrayBuffer());
  // ISO 32000-1, 7.5.2: a PDF begins with %PDF-. Bytes before it, which some readers tolerate, can hide another format.
  if (new TextDecoder("latin1").decode(bytes.subarray(0, 5)) !== "%PDF-") return { error: "The file isn’t a PDF" };
  return { fileName: sanitizeFileName(file.name), bytes };
}

const maxNameLength = 128;

/** Returns a file's name without folders, control characters and characters that file systems reserve, ending in .pdf. */
export function sanitizeFileName(name: string): string {
  const stem = name
    .toWellFormed()
    .normalize("NFC")
    .replace(/^.*[/\\]/s, "")
    .replace(/\.pdf$/i, "")
    // Format characters include those that reverse the order of text, so that "fdp.exe" looks like another extension.
    .replace(/[\p{C}\p{Zl}\p{Zp}\uFFFD]/gu, "")
    .replace(/["*:<>?|]/g, "-")
    .replace(/^[.\s]+|[.\s]+$/g, "");
  const characters = [...stem].slice(0, maxNameLength - ".pdf".length);
  return `${characters.join("").trim() || "invoice"}.pdf`;
}

const attachAnswer = z.union([
  z.object({ outcome: z.enum(["attached", "unchanged", "has_document", "not_found", "not_allowed"]) }),
  z.object({ outcome: z.literal("storage_full"), maxBytes: z.number() }),
]);

/**
 * Attaches a document to an invoice, or returns why it was not attached. Attaching the same document again changes
 * nothing.
 * @param options.change what the audit log records, for the platform's book
 * @throws Response 403, 404, 503
 */
export async function attachDocument(
  context: AppLoadContext,
  {
    member,
    invoiceId = "",
    document: { fileName, bytes },
    change,
  }: {
    member: StudioMember;
    invoiceId: string | undefined;
    document: InvoiceDocument;
    change?: AuditedChange | undefined;
  },
): Promise<{ error: string } | null> {
  requireInvoiceId(context, invoiceId);
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  const args = { invoice_id: invoiceId, file_name: fileName, content, ...(change ? { change } : {}) };
  const answer = await callAsMember(context, {
    member,
    name: "attach_invoice_document",
    args,
    schema: attachAnswer,
    timeoutMs,
  });
  switch (answer.outcome) {
    case "attached":
    case "unchanged":
      return null;
    case "has_document":
      return { error: "Another document is already attached. It can’t be replaced" };
    case "storage_full":
      return { error: `The documents of these invoices have reached ${answer.maxBytes / 1024 / 1024} MiB in total` };
    case "not_allowed":
      throw problem("FORBIDDEN", { requestId: context.requestId });
    case "not_found":
      throw notFound(context);
  }
}

const readAnswer = z.union([
  z.object({ outcome: z.literal("read"), fileName: z.string(), content: z.string() }),
  z.object({ outcome: z.literal("not_found") }),
]);

/**
 * Returns an invoice's document as a download. Browsers neither render it nor guess its type, and nothing stores it.
 * @throws Response 403, 404, 503
 */
export async function downloadDocument(
  context: AppLoadContext,
  { member, invoiceId = "" }: { member: StudioMember; invoiceId: string | undefined },
): Promise<Response> {
  requireInvoiceId(context, invoiceId);
  const answer = await readStudio(context, {
    reader: member,
    name: "read_invoice_document",
    args: { invoice_id: invoiceId },
    schema: readAnswer,
    timeoutMs,
  });
  if (answer.outcome === "not_found") throw notFound(context);
  return new Response(Buffer.from(answer.content, "base64"), {
    headers: {
      "Content-Type": "application/pdf",
      "Content-Disposition": disposition(answer.fileName),
      "Cache-Control": "private, no-store",
      "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    },
  });
}

/** Returns the header of a download with a file name of any characters (RFC 6266, section 4.3, and RFC 8187). */
function disposition(fileName: string): string {
  const ascii = fileName.replaceAll(/[^A-Za-z0-9._ -]+/g, "-");
  const encoded = encodeURIComponent(fileName).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

function requireInvoiceId(context: AppLoadContext, invoiceId: string): void {
  if (!z.uuid().safeParse(invoiceId).success) throw notFound(context);
}

function notFound({ requestId }: AppLoadContext): Response {
  return problem("NOT_FOUND", { requestId, detail: "This invoice or its document doesn’t exist." });
}
