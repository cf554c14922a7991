import { type AiCredentialKind, aiCredentialKind, hashAiCredential } from "../_shared/ai-key.ts";
import { GatewayError } from "./errors.ts";

/** What the database is told of a credential: where it comes from and the SHA-256 of its text, in hex. */
export type Credential = { source: AiCredentialKind; hash: string };

/**
 * Reads the bearer credential of a request by its syntax alone; whether it is good is the database's to say.
 * @throws GatewayError `invalid_api_key`
 */
export async function readCredential(request: Request): Promise<Credential> {
  const text = /^bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
  const source = aiCredentialKind(text);
  if (!source) throw new GatewayError("invalid_api_key");
  return { source, hash: hex(await hashAiCredential(text)) };
}

/** Lower-case hexadecimal digits of bytes. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
