import { z } from "zod";
import { parseExactJson } from "../../_shared/exact-json.ts";
import { rounding } from "../../_shared/provider-records.ts";
import { readOrAuthenticate } from "../admission/credentials.ts";
import { readCaller, readLabels } from "../admission/labels.ts";
import type { Gateway } from "../calls/gateway.ts";
import type { Caller, StoredRecord } from "../database/database.ts";
import { errorSchema } from "../http/error-schema.ts";
import { GatewayError, isErrorCode } from "../http/errors.ts";
import { parseJson } from "../http/parse-json.ts";
import type { Handler } from "../http/router.ts";

/** The size limit, reader and storage of an import. */
type Import<Imported> = {
  limitBytes: number;
  /**
   * Parses an import.
   * @throws GatewayError that names the invalid field
   */
  read: (value: unknown) => Imported;
  /** Stores an import. @returns the response body */
  store: (request: { caller: Caller; imported: Imported; requestId: string }) => Promise<object>;
};

/**
 * Serves an import. Checks the credential's syntax, reads the body, checks credential and app, parses JSON, validates
 * it, and runs one statement. No model is called, and nothing is reserved or charged.
 */
export function serveImport<Imported>(gateway: Gateway, { limitBytes, read, store }: Import<Imported>): Handler {
  return async ({ request, requestId }) => {
    const caller = await readCaller(gateway, request);
    const check = () => gateway.database.checkAppCaller(caller);
    const body = await gateway.readBody(request, { limitBytes, check });
    try {
      const imported = await readOrAuthenticate(check, () => {
        readLabels(request);
        return read(parseJson(request, body.bytes, { parse: parseExactJson }));
      });
      return Response.json(await store({ caller, imported, requestId }));
    } finally {
      body.release();
    }
  };
}

/**
 * Returns the outcome of an imported record.
 * @throws GatewayError if the database refused it
 */
export function requireOutcome(stored: StoredRecord | undefined): NonNullable<StoredRecord["outcome"]> {
  if (stored?.outcome !== undefined) return stored.outcome;
  const code = stored?.refused ?? "internal_error";
  if (!isErrorCode(code)) throw new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  throw new GatewayError(code, { message: stored?.message, param: stored?.param });
}

/** The response to a single import. */
export const costReceipt = rounding.extend({
  accepted: z.literal(true),
  externalRunId: z.string(),
  outcome: z.enum(["stored", "corrected", "unchanged", "stale"]),
});
export type CostReceipt = z.output<typeof costReceipt>;

/** The response to a batch: one outcome or error per record, in order. */
export const costReceipts = z.object({
  results: z.array(
    z.union([costReceipt, errorSchema.extend({ accepted: z.literal(false), externalRunId: z.string().optional() })]),
  ),
});
