import { z } from "zod";
import { offsetTime } from "#shared/utc-time.ts";

const position = z.object({ createdAt: offsetTime, id: z.uuid() });

/** Where a page of a list that is ordered by creation ends. */
export type Position = z.infer<typeof position>;

/** The opaque text of a position. */
export function writeCursor({ createdAt, id }: Position): string {
  return Buffer.from(JSON.stringify({ createdAt, id })).toString("base64url");
}

/** @returns null for a text that is none of ours */
export function readCursor(cursor: string): Position | null {
  try {
    return position.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
  } catch {
    return null;
  }
}
