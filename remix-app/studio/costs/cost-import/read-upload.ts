import { setImmediate } from "node:timers/promises";
import { UnreadableCostFile } from "../files/cost-file.ts";
import { readCostFile } from "../files/read-cost-file.ts";
import type { ParsedFile } from "./parsed-file.ts";
import { mostFileMiB } from "./upload-limit.ts";

const mostFileBytes = mostFileMiB * 1024 * 1024;
/** The maximum size of a compressed file when unpacked. */
const mostUnpackedBytes = 2 * mostFileBytes;

const partBytes = 64 * 1024;

/** Reads the cost file of an upload form, or returns why it cannot be read. */
export async function readUpload(form: FormData): Promise<{ file: ParsedFile } | { error: string }> {
  const upload = form.get("upload");
  if (!(upload instanceof File) || upload.size === 0) return { error: "Choose a cost file." };
  if (upload.size > mostFileBytes) {
    return {
      error: `${upload.name} is larger than ${mostFileMiB} MiB. Export a shorter range, or ask the platform’s operator to run npm run import-costs.`,
    };
  }
  try {
    return {
      file: await readCostFile(inParts(upload), { fileName: nameOf(upload.name), mostBytes: mostUnpackedBytes }),
    };
  } catch (error) {
    if (error instanceof UnreadableCostFile) return { error: error.message };
    throw error;
  }
}

/** Yields a file in parts. Parsing a large file takes seconds, and the server must answer other requests in between. */
async function* inParts(file: File): AsyncGenerator<Uint8Array> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  for (let start = 0; start < bytes.length; start += partBytes) {
    yield bytes.subarray(start, start + partBytes);
    await setImmediate();
  }
}

/** Returns a file name in a form that the database can store. */
function nameOf(name: string): string {
  return (
    name
      .toWellFormed()
      .replaceAll(/\p{Cc}/gu, "")
      .slice(-255)
      .toWellFormed() || "file"
  );
}
