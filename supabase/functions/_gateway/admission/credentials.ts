import { createHash } from "node:crypto";
import { aiCredentialKind } from "../../_shared/ai-key.ts";
import { approvalProofHeader, type ClaimsVerifier } from "../../_shared/claims.ts";
import type { Credential } from "../database/database.ts";
import { GatewayError } from "../http/errors.ts";

export type CredentialReader = (request: Request, keyHeader?: "x-api-key") => Promise<Credential>;

/** Three base64url parts (RFC 7515, 7.1) within the sizes of real tokens. */
const tokenShape = /^[A-Za-z0-9_-]{1,512}\.[A-Za-z0-9_-]{1,8192}\.[A-Za-z0-9_-]{1,1024}$/;

/**
 * Creates the reader of bearer credentials. Keys and app tokens are recognized by syntax alone; the database decides
 * whether they are valid. Access tokens of the identity backend are verified here.
 * @throws GatewayError `invalid_api_key`, or `AUTH_UNAVAILABLE` if a token can't be verified at all
 */
export function createCredentialReader(
  verify: ClaimsVerifier,
  { identityHeaders }: { identityHeaders: Record<string, string> },
): CredentialReader {
  return async ({ headers }, keyHeader) => {
    const text = readCredentialText(headers, keyHeader);
    const kind = aiCredentialKind(text);
    // WebCrypto would hand the work to another thread, which takes longer than the hash itself.
    if (kind) return { source: kind, hash: createHash("sha256").update(text).digest("hex") };
    if (!tokenShape.test(text)) throw new GatewayError("invalid_api_key");
    const result = await verify(text, { identityHeaders });
    if (result.status === "unavailable") throw new GatewayError("AUTH_UNAVAILABLE");
    if (result.status === "refused") throw new GatewayError("invalid_api_key");
    const { sub, session_id, aal, amr } = result.claims;
    const approval_proof = headers.get(approvalProofHeader) ?? undefined;
    return { source: "session", claims: { sub, session_id, aal, amr, approval_proof } };
  };
}

/**
 * Returns the text of the credential; empty if there is none. @throws GatewayError if two headers contain different
 * credentials
 */
function readCredentialText(headers: Headers, keyHeader: string | undefined): string {
  const authorization = headers.get("authorization") ?? "";
  const bearer = /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? "";
  const key = keyHeader && headers.get(keyHeader);
  if (!key) return bearer;
  if (authorization !== "" && bearer !== key) {
    throw new GatewayError("invalid_api_key", {
      message: `Authorization and ${keyHeader} show different keys. Send one.`,
    });
  }
  return key;
}

/**
 * Runs `read`. If it fails, checks the credential before throwing, so that a bad credential gets 401 or 403 instead of
 * a 400 that reveals something about the body.
 */
export async function readOrAuthenticate<Result>(
  check: () => Promise<unknown>,
  read: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    await check();
    throw error;
  }
}
