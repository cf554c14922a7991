import { isLabel } from "../../_shared/labels.ts";
import type { Caller } from "../database/database.ts";
import { GatewayError } from "../http/errors.ts";
import type { CredentialReader } from "./credentials.ts";

/** Validated labels from a call's headers. None of them identifies the caller. */
export type CallLabels = { operation?: string; entityId?: string; idempotencyKey?: string };

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const nilWorkspaceId = "00000000-0000-0000-0000-000000000000";
const printable = /^[\x20-\x7e]{1,255}$/;

/** The services that identify a caller. */
export type CallerReader = {
  readCredential: CredentialReader;
  /** Returns the caller's IP address, if trusted proxies state it. */
  addressOf: (request: Request) => string | undefined;
};

/**
 * Reads `x-request-id`, the audit labels and `idempotency-key`.
 * @throws GatewayError `invalid_request` naming the header
 */
export function readLabels({ headers }: Request): CallLabels {
  readLabel(headers, "x-request-id");
  const idempotencyKey = headers.get("idempotency-key") ?? undefined;
  if (idempotencyKey !== undefined && !printable.test(idempotencyKey)) throw createHeaderError("idempotency-key");
  return {
    operation: readLabel(headers, "X-Platform-Operation"),
    entityId: readLabel(headers, "X-Platform-Entity-Id"),
    idempotencyKey,
  };
}

/**
 * Reads the caller of a request: credential, workspace header, and address.
 * @param keyHeader a header that may carry the credential in place of `Authorization`
 * @throws GatewayError `invalid_api_key` or `AUTH_UNAVAILABLE`
 */
export async function readCaller(
  { readCredential, addressOf }: CallerReader,
  request: Request,
  keyHeader?: "x-api-key",
): Promise<Caller> {
  const credential = await readCredential(request, keyHeader);
  const header = request.headers.get("x-platform-workspace-id")?.toLowerCase();
  // An invalid id becomes a workspace id that doesn't exist.
  const workspace = header === undefined || uuid.test(header) ? header : nilWorkspaceId;
  return { credential, workspace, address: addressOf(request) };
}

function readLabel(headers: Headers, name: string): string | undefined {
  const value = headers.get(name) ?? undefined;
  if (value !== undefined && !isLabel(value)) throw createHeaderError(name);
  return value;
}

function createHeaderError(header: string): GatewayError {
  return new GatewayError("invalid_request", { param: header, message: `The header ${header} is malformed.` });
}
