import { createHash } from "node:crypto";
import type { CostImportDocument, ServiceTotal } from "../files/import-document.ts";
import {
  changedDays,
  type ImportAnswer,
  type ImportPreview,
  type InvalidImport,
  type PreviewAnswer,
} from "./import-answers.ts";
import {
  documentOf,
  type ImportChoices,
  type ImportErrors,
  needsAccount,
  rateField,
  readChoices,
  servicesOf,
} from "./import-choices.ts";
import { mostPackedLength, type ParsedFile, packFile, unpackFile } from "./parsed-file.ts";

/**
 * Compares and stores imports. Both functions throw a Response if the costs do not exist or access to them is refused.
 */
export interface CostBook {
  preview: (document: CostImportDocument) => Promise<PreviewAnswer>;
  store: (change: { document: CostImportDocument; state: string }) => Promise<ImportAnswer>;
}

/** The data of the review page: the file, the choices for the import, and the changes that it would make. */
export interface ImportReview {
  /** The packed file, which the form sends back. */
  packed: string;
  file: Pick<ParsedFile, "fileName" | "formatName" | "rows" | "skipped" | "notes">;
  sources: { provider: string; days: number }[];
  timeZone: string;
  services: ServiceTotal[];
  /** Currencies that need a rate. */
  currencies: string[];
  asksAccount: boolean;
  choices: ImportChoices;
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
  | { at: "upload"; error: string }
  | { at: "review"; review: ImportReview }
  | { at: "receipt"; importId: string };

/** Reviews a file that was just uploaded. */
export function reviewFile(
  file: ParsedFile,
  { form, book }: { form: FormData; book: Pick<CostBook, "preview"> },
): Promise<ImportEntry> {
  const packed = packFile(file);
  if (packed.length <= mostPackedLength) return review(file, { packed, form, book, again: null });
  const error = "This file has too many days, accounts and services for one import. Export a shorter range.";
  return Promise.resolve({ at: "upload", error });
}

/**
 * Advances a review by one step. `preview` shows the changes that the choices would make. `import` stores exactly what
 * was previewed. If the choices or the stored costs have changed since, `import` stores nothing and shows the new
 * preview.
 */
export async function takeImportStep(form: FormData, book: CostBook): Promise<ImportEntry> {
  const packed = String(form.get("file") ?? "");
  const file = unpackFile(packed);
  if (!file) return { at: "upload", error: "The review couldn’t be read. Upload the file again." };
  const reviewed = { packed, form, book };
  if (form.get("step") !== "import") return review(file, { ...reviewed, again: null });
  const read = documentOf(file, readChoices(form, file));
  const state = String(form.get("state") ?? "");
  if ("errors" in read || hashOf(read.document) !== form.get("previewed")) {
    return review(file, { ...reviewed, again: "edited" });
  }
  const answer = await book.store({ document: read.document, state });
  switch (answer.outcome) {
    case "imported":
      return answer.importId === null
        ? review(file, { ...reviewed, again: null })
        : { at: "receipt", importId: answer.importId };
    case "changed":
      return review(file, { ...reviewed, again: "changed" });
    case "invalid":
      return review(file, { ...reviewed, again: null, refused: answer });
  }
}

async function review(
  file: ParsedFile,
  {
    packed,
    form,
    book,
    again,
    refused,
  }: {
    packed: string;
    form: FormData;
    book: Pick<CostBook, "preview">;
    again: ImportReview["again"];
    refused?: InvalidImport;
  },
): Promise<ImportEntry> {
  const choices = readChoices(form, file);
  const bill = file.providers[choices.source];
  if (!bill) return { at: "upload", error: "This file has no costs. Export a range that has costs." };
  const read = documentOf(file, choices);
  const answer = "errors" in read ? null : await book.preview(read.document);
  const previewed = answer?.outcome === "previewed" ? answer : null;
  const invalid = answer?.outcome === "invalid" ? answer : refused;
  // A preview without changes means that this file is already imported, perhaps by a double click or by another person.
  const imported = previewed !== null && changedDays(previewed) === 0;
  const { fileName, formatName, rows, skipped, notes } = file;
  return {
    at: "review",
    review: {
      packed,
      file: { fileName, formatName, rows, skipped, notes },
      sources: file.providers.map(({ provider, days }) => ({ provider, days: days.length })),
      timeZone: bill.timeZone,
      services: servicesOf(bill),
      currencies: bill.currencies.filter((currency) => currency !== "USD"),
      asksAccount: needsAccount(bill),
      choices,
      // A file that was just uploaded has no rates yet, which is not an error.
      errors: { ...("errors" in read && form.has("reviewedSource") ? read.errors : {}), ...errorOf(invalid) },
      preview: previewed,
      previewed: previewed && "document" in read ? hashOf(read.document) : null,
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

function hashOf(document: CostImportDocument): string {
  return createHash("sha256").update(JSON.stringify(document)).digest("base64url");
}
