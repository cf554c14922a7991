import { z } from "zod";

/** A text that the database can hold. */
const part = z
  .string()
  .max(256)
  .refine((text) => !text.includes("\0") && text.isWellFormed());
const key = z.array(part).max(8);

/** The opaque text of where a page of a list ends that is ordered by texts. */
export function writeKeyCursor(values: readonly string[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

/** @returns null for a text that is none of ours */
export function readKeyCursor(cursor: string, { length }: { length: number }): string[] | null {
  try {
    const values = key.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
    return values.length === length ? values : null;
  } catch {
    return null;
  }
}
