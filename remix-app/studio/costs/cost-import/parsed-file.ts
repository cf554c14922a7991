import { gunzipSync, gzipSync } from "node:zlib";
import { z } from "zod";
import { amountText } from "../../../ui/format-amount.ts";

/**
 * Leaves room for every sum of a file, which has at most 22 digits before the point and 42 after it. Longer amounts are
 * refused, because parsing them takes time.
 */
const mostAmountLength = 80;

const days = z.array(
  z.object({
    accountId: z.string().min(1).max(256).nullable(),
    day: z.iso.date(),
    amounts: z.array(
      z.object({
        currency: z.string().regex(/^[A-Z]{3}$/),
        amount: amountText.max(mostAmountLength),
        service: z.string().nullable(),
      }),
    ),
  }),
);

/** The contents of a cost file, as sent back by the review form. */
const parsedFile = z.object({
  format: z.string(),
  formatName: z.string(),
  fileName: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  rows: z.number().int(),
  skipped: z.array(z.object({ what: z.string(), rows: z.number().int() })),
  notes: z.array(z.string()),
  providers: z
    .array(z.object({ provider: z.string(), timeZone: z.string(), currencies: z.array(z.string()), days }))
    .min(1),
});
export type ParsedFile = z.output<typeof parsedFile>;
export type ParsedProvider = ParsedFile["providers"][number];

/** The maximum length of the hidden field that carries a file, in characters. */
export const mostPackedLength = 8 * 1024 * 1024;
/** The maximum size of the unpacked file. */
const mostUnpackedBytes = 128 * 1024 * 1024;

/** Packs a file into the text of a hidden field. */
export function packFile(file: ParsedFile): string {
  return gzipSync(JSON.stringify(file)).toString("base64url");
}

/** @returns null for a text that {@link packFile} did not write */
export function unpackFile(text: string): ParsedFile | null {
  try {
    const unpacked = gunzipSync(Buffer.from(text, "base64url"), { maxOutputLength: mostUnpackedBytes });
    return parsedFile.parse(JSON.parse(unpacked.toString()));
  } catch {
    return null;
  }
}
