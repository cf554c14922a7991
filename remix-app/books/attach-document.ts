import type { AppLoadContext } from "@remix-run/node";
import { reasonSchema } from "../admin/console-change.ts";
import { attachDocument, readDocument } from "../studio/invoices/invoice-document.ts";
import type { StudioMember } from "../studio/studio-reader.ts";
import { auditedChange } from "./audited-change.ts";
import type { Book } from "./book.ts";

export type DocumentErrors = { document?: string; reason?: string };

/**
 * Attaches the document of a form to an invoice of a book. Returns what is wrong, or null once it is attached. In the
 * platform's book, this needs a reason.
 * @throws Response 403, 404, 503
 */
export async function attachBookDocument(
  context: AppLoadContext,
  {
    book,
    member,
    invoiceId,
    form,
  }: { book: Book; member: StudioMember; invoiceId: string | undefined; form: FormData },
): Promise<DocumentErrors | null> {
  const document = await readDocument(form);
  const reason = book.isPlatform ? reasonSchema.safeParse(form.get("reason") ?? "") : undefined;
  const errors: DocumentErrors = {};
  if (document === null) errors.document = "Choose a PDF";
  else if ("error" in document) errors.document = document.error;
  if (reason?.error) errors.reason = reason.error.issues[0]?.message ?? "";
  if (document === null || "error" in document || errors.reason) return errors;
  const change = book.isPlatform ? auditedChange(context, form) : undefined;
  const refused = await attachDocument(context, { member, invoiceId, document, change });
  return refused && { document: refused.error };
}
