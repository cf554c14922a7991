import type { StoredRecord } from "../database.ts";
import { GatewayError, isErrorCode } from "../http/errors.ts";

/** What became of a record. @throws GatewayError where the database refused it */
export function orRefusal(stored: StoredRecord | undefined): NonNullable<StoredRecord["outcome"]> {
  if (stored?.outcome !== undefined) return stored.outcome;
  const code = stored?.refused ?? "internal_error";
  if (!isErrorCode(code)) throw new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  throw new GatewayError(code, { message: stored?.message, param: stored?.param });
}
