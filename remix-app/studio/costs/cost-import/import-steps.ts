import type { AppLoadContext } from "@remix-run/node";
import { runInWorker } from "../../../http/run-in-worker.ts";
import { reviewDrafts } from "../../../supabase/review-drafts.ts";
import type { AuditedChange } from "../platform-book.ts";
import { changedDays, type ImportPreview, type InvalidImport } from "./import-answers.ts";
import { type ImportTarget, previewImport, storeImport } from "./import-book.ts";
import { type ImportErrors, maxFileBytes, maxFileMiB, rateField } from "./import-choices.ts";
import type { Bill, BillInput, ReadBill } from "./read-bill.ts";

/** The data of the review page: the file, the choices for the import, and the changes that it would make. */
export interface ImportReview extends Bill {
  /** Identifies the file's stored contents, for the form. */
  draftId: string;
  errors: ImportErrors;
  /** Null until the choices are complete. */
  preview: ImportPreview | null;
  /** Identifies the preview, so that an import stores only the changes that were previewed. */
  previewed: string | null;
  /** Why the preview is shown again: the choices were edited, or the stored costs have changed. */
  again: "edited" | "changed" | null;
}

/** The state of an import after a step. */
export type ImportEntry =
  | { at: "upload"; errors: ImportErrors }
  | { at: "review"; review: ImportReview }
  | { at: "receipt"; importId: string };

/** Returns the HTTP status of a page that shows an import. */
export function statusOfImport(entry: Exclude<ImportEntry, { at: "receipt" }>): number {
  if (entry.at === "upload" || Object.keys(entry.review.errors).length > 0) return 400;
  return entry.review.again || entry.review.preview?.closedMonths.length ? 409 : 200;
}

/**
 * Advances an import by one step. A form with a file begins it. `preview` shows the changes that the choices would
 * make. `import` stores exactly what was previewed. If the choices or the stored costs have changed since, `import`
 * stores nothing and shows the new preview. A file that would change days of a closed month is refused.
 * @param options.change what the audit log records, for the platform's book
 * @throws Response 429 while two files of the same person are being read, or many of others; 403, 503
 */
export async function takeImportStep(
  context: AppLoadContext,
  { form, change, ...target }: ImportTarget & { form: FormData; change?: AuditedChange },
): Promise<ImportEntry> {
  const { userId } = target.member;
  const drafts = reviewDrafts(context, { userId, kind: "cost_file" });
  const named = form.get("draft");
  const draft = typeof named === "string" ? { id: named, contents: await drafts.read(named) } : null;
  if (draft?.contents === null) {
    return { at: "upload", errors: { upload: "The review has expired. Upload the file again." } };
  }
  const source = draft?.contents ? { contents: draft.contents } : await uploadOf(form);
  if ("error" in source) return { at: "upload", errors: { upload: source.error } };
  const input: BillInput = { source, fields: textsOf(form) };
  const transfer = "bytes" in source ? [source.bytes.buffer] : [];
  const read = await runInWorker<ReadBill | { error: string }>("readBill", {
    input,
    owner: userId,
    requestId: context.requestId,
    transfer,
  });
  if ("error" in read) return { at: "upload", errors: { upload: read.error } };
  const draftId = draft ? draft.id : await drafts.store(read.contents ?? "");
  const review = (again: ImportReview["again"], refused?: InvalidImport) =>
    reviewImport(context, { ...target, read, draftId, isFirst: !form.has("reviewedSource"), again, refused });
  if (form.get("step") !== "import") return review(null);
  if ("errors" in read || read.hash !== form.get("previewed")) return review("edited");
  const state = String(form.get("state") ?? "");
  const answer = await storeImport(context, { ...target, document: read.document, state, change });
  switch (answer.outcome) {
    case "imported":
      return answer.importId === null ? review(null) : { at: "receipt", importId: answer.importId };
    case "changed":
      return review("changed");
    case "month_closed":
      return review(null);
    case "invalid":
      return review(null, answer);
  }
}

/** Returns the file of an upload form, or why it cannot be read. */
async function uploadOf(
  form: FormData,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; fileName: string } | { error: string }> {
  const upload = form.get("upload");
  if (!(upload instanceof File) || upload.size === 0) return { error: "Choose a cost file." };
  if (upload.size > maxFileBytes) {
    const error = `${upload.name} is larger than ${maxFileMiB} MiB. Export a shorter range, or ask the platform’s operator to run npm run gatehouse -- import-costs.`;
    return { error };
  }
  return { bytes: new Uint8Array(await upload.arrayBuffer()), fileName: upload.name };
}

function textsOf(form: FormData): [string, string][] {
  return [...form].filter((field): field is [string, string] => typeof field[1] === "string");
}

async function reviewImport(
  context: AppLoadContext,
  {
    read,
    draftId,
    isFirst,
    again,
    refused,
    ...target
  }: ImportTarget & {
    read: ReadBill;
    draftId: string;
    isFirst: boolean;
    again: ImportReview["again"];
    refused: InvalidImport | undefined;
  },
): Promise<ImportEntry> {
  const answer = "errors" in read ? null : await previewImport(context, { ...target, document: read.document });
  const previewed = answer?.outcome === "previewed" ? answer : null;
  const invalid = answer?.outcome === "invalid" ? answer : refused;
  // A preview without changes means that this file is already imported, perhaps by a double click or by another person.
  const imported = previewed !== null && changedDays(previewed) === 0;
  return {
    at: "review",
    review: {
      ...read.bill,
      draftId,
      // A file that was just uploaded has no rates yet, which is not an error.
      errors: { ...("errors" in read && !isFirst ? read.errors : {}), ...errorOf(invalid) },
      preview: previewed,
      previewed: previewed && "hash" in read ? read.hash : null,
      again: imported ? null : again,
    },
  };
}

/** Assigns the database's error to the field it concerns, or to the form as a whole. */
function errorOf(invalid: InvalidImport | undefined): ImportErrors {
  if (!invalid) return {};
  const { param, message } = invalid;
  const currency = /^rates\.([A-Z]{3})$/.exec(param ?? "")?.[1];
  if (currency) return { [rateField(currency)]: message };
  return { [param || "form"]: message };
}
