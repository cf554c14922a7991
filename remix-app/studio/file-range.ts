import { problem } from "../http/problem.ts";
import { type Range, readRange } from "./range.ts";

/**
 * The range that a file is of: nobody would see in it that another stands in for a wrong one.
 * @throws Response 400 INVALID_REQUEST where what the address has is none
 */
export function rangeOfFile<Found extends Range | null>(range: Found, { requestId }: { requestId: string }): Found {
  if (range?.fault) throw problem("INVALID_REQUEST", { requestId, detail: range.fault });
  return range;
}

/** The range that the address of a file names. @throws Response as {@link rangeOfFile} */
export function readFileRange(request: Request, context: { requestId: string }): Range {
  return rangeOfFile(readRange(new URL(request.url), { now: new Date() }), context);
}
