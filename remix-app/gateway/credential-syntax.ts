import { aiCredentialKind } from "#shared/ai-key.ts";
import { bearerToken } from "../http/bearer.ts";

/** Whether an Authorization header may hold a credential of the gateway: a `ttr_ai_` key, a `ttr_app_` token or a JWT. */
export function isGatewayCredential(authorization: string | null): boolean {
  const text = /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
  return aiCredentialKind(text) !== undefined || bearerToken(authorization) !== null;
}
