import { UnreadableCostFile } from "../files/cost-file.ts";
import { readCostFile } from "../files/read-cost-file.ts";
import type { ParsedFile } from "./parsed-file.ts";
import { mostFileMiB } from "./upload-limit.ts";

const mostFileBytes = mostFileMiB * 1024 * 1024;
/** Of a compressed file, when unpacked. */
const mostUnpackedBytes = 8 * mostFileBytes;

/** Reads the cost file of an upload form, or says why it cannot be read. */
export async function readUpload(form: FormData): Promise<{ file: ParsedFile } | { error: string }> {
  const upload = form.get("upload");
  if (!(upload instanceof File) || upload.size === 0) return { error: "Choose a cost file." };
  if (upload.size > mostFileBytes) {
    return {
      error: `${upload.name} has more than ${mostFileMiB} MiB. Export a shorter time, or use npm run import-costs.`,
    };
  }
  try {
    const bytes = new Uint8Array(await upload.arrayBuffer());
    return { file: await readCostFile(bytes, { fileName: nameOf(upload.name), mostBytes: mostUnpackedBytes }) };
  } catch (error) {
    if (error instanceof UnreadableCostFile) return { error: error.message };
    throw error;
  }
}

/** A name that the database can hold. */
function nameOf(name: string): string {
  return (
    name
      .toWellFormed()
      .replaceAll(/\p{Cc}/gu, "")
      .slice(-255)
      .toWellFormed() || "file"
  );
}
