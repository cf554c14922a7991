import { isLabel } from "../_shared/labels.ts";
import { GatewayError } from "./errors.ts";

/** What a call's headers say about it, checked (api.md, Text). None of it says who calls. */
export type CallLabels = { workspace?: string; operation?: string; entityId?: string; idempotencyKey?: string };

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const printable = /^[\x20-\x7e]{1,255}$/;

/**
 * Reads `x-request-id`, the audit labels, the workspace header and `idempotency-key`.
 * @throws GatewayError `invalid_request` naming the header, or `workspace_mismatch` for what is no id at all
 */
export function readLabels({ headers }: Request): CallLabels {
  label(headers, "x-request-id");
  const workspace = namedWorkspace(headers);
  if (workspace !== undefined && !uuid.test(workspace)) throw new GatewayError("workspace_mismatch");
  const idempotencyKey = headers.get("idempotency-key") ?? undefined;
  if (idempotencyKey !== undefined && !printable.test(idempotencyKey)) throw invalid("idempotency-key");
  return {
    workspace,
    operation: label(headers, "X-Platform-Operation"),
    entityId: label(headers, "X-Platform-Entity-Id"),
    idempotencyKey,
  };
}

/** The workspace that a call names, as it is written. */
export function namedWorkspace(headers: Headers): string | undefined {
  return headers.get("x-platform-workspace-id")?.toLowerCase();
}

function label(headers: Headers, name: string): string | undefined {
  const value = headers.get(name) ?? undefined;
  if (value !== undefined && !isLabel(value)) throw invalid(name);
  return value;
}

function invalid(header: string): GatewayError {
  return new GatewayError("invalid_request", { param: header, message: `The header ${header} is malformed.` });
}
