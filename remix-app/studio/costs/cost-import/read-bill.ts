import { createHash } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import { type CostFile, UnreadableCostFile } from "../files/cost-file.ts";
import { type ServiceTotal, withoutServices } from "../files/import-document.ts";
import { readCostFile } from "../files/read-cost-file.ts";
import {
  buildDocument,
  type ImportChoices,
  type ImportErrors,
  listServicesToChoose,
  needsAccount,
  readChoices,
} from "./import-choices.ts";

/** The maximum size of a compressed file when unpacked. */
const maxUnpackedBytes = 16 * 1024 * 1024;
/** The maximum lengths of what the server stores of a file, and of what it sends to the database for one import. */
const maxContentsLength = 4 * 1024 * 1024;
const maxImportJsonLength = 4 * 1024 * 1024;
/** More than any bill has. A page lists them all. */
const maxProviders = 50;
const maxCurrencies = 50;
/** Messages may quote a cell of the file. */
const maxMessageLength = 500;

/** An uploaded file, or the contents of one that was read before, with the fields of the form. */
export type BillInput = {
  source: { bytes: Uint8Array; fileName: string } | { contents: string };
  fields: readonly (readonly [name: string, value: string])[];
};

/** What a review page shows of a bill, apart from the changes that its import would make. */
export interface Bill {
  file: Pick<CostFile, "fileName" | "formatName" | "rows" | "skipped" | "notes">;
  sources: { provider: string; days: number }[];
  timeZone: string;
  /** Empty if there are too many to choose from. */
  services: ServiceTotal[];
  /** Currencies that need a rate. */
  currencies: string[];
  asksAccount: boolean;
  choices: ImportChoices;
}

export type ReadBill = {
  bill: Bill;
  /** What to keep of an uploaded file for the next step; null if the step began with it. */
  contents: string | null;
} & ({ errors: ImportErrors } | { document: string; hash: string });

/**
 * Reads a cost file, or its stored contents, and applies the choices of the form. Runs in a worker, because both may take
 * seconds.
 * @returns the bill, with the document to import as JSON and its hash, or what is wrong with the choices; or why the
 * file cannot be imported
 */
export async function readBill({ source, fields }: BillInput): Promise<ReadBill | { error: string }> {
  try {
    if ("contents" in source) return billOf(unpacked(source.contents), { fields, contents: null });
    const { bytes, fileName } = source;
    const file = await readCostFile(bytes, { fileName, maxBytes: maxUnpackedBytes });
    const contents = gzipSync(JSON.stringify(file)).toString("base64");
    const isTooLong = contents.length > maxContentsLength || file.providers.length > maxProviders;
    if (isTooLong || file.providers.some(({ currencies }) => currencies.length > maxCurrencies)) {
      throw new UnreadableCostFile(
        "This file has too many days, accounts, services or currencies for one import. Export a shorter range.",
      );
    }
    return billOf(file, { fields, contents });
  } catch (error) {
    if (error instanceof UnreadableCostFile) return { error: error.message.slice(0, maxMessageLength).toWellFormed() };
    throw error;
  }
}

function unpacked(contents: string): CostFile {
  return JSON.parse(gunzipSync(Buffer.from(contents, "base64")).toString()) as CostFile;
}

function billOf(
  file: CostFile,
  { fields, contents }: Pick<BillInput, "fields"> & Pick<ReadBill, "contents">,
): ReadBill {
  const choices = readChoices(new Map(fields), file);
  const costs = file.providers[choices.source];
  if (!costs) throw new UnreadableCostFile("This file has no costs. Export a range that has costs.");
  const { fileName, formatName, rows, skipped, notes } = file;
  const bill: Bill = {
    file: { fileName, formatName, rows, skipped, notes },
    sources: file.providers.map(({ provider, days }) => ({ provider, days: days.length })),
    timeZone: costs.timeZone,
    services: listServicesToChoose(costs),
    currencies: costs.currencies.filter((currency) => currency !== "USD"),
    asksAccount: needsAccount(costs),
    choices,
  };
  const read = buildDocument(file, choices);
  if ("errors" in read) return { bill, contents, errors: read.errors };
  let document = JSON.stringify(read.document);
  if (document.length > maxImportJsonLength) {
    document = JSON.stringify(withoutServices(read.document));
    bill.file.notes = [
      ...notes,
      "The file has too many services to store. Its daily totals are imported without them. Export a shorter range to keep the services.",
    ];
  }
  if (document.length > maxImportJsonLength) {
    const services = "The file has too many daily totals and currencies for one import. Export a shorter range.";
    return { bill, contents, errors: { services } };
  }
  return { bill, contents, document, hash: createHash("sha256").update(document).digest("base64url") };
}
