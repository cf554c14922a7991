import type { AnswerTarget, AuthorizationError } from "./authorization-request.ts";

/** The address that answers a client with a code. @param issuer ours, against mix-up attacks (RFC 9207) */
export function codeAddress(target: AnswerTarget, { code, issuer }: { code: string; issuer: string }): string {
  return answerAddress(target, { code, iss: issuer });
}

/** The address that answers a client with an error. */
export function errorAddress(
  target: AnswerTarget,
  { error: { error, description }, issuer }: { error: AuthorizationError; issuer: string },
): string {
  return answerAddress(target, { error, error_description: description, iss: issuer });
}

/** Appends as text: parsing a redirect URI could spell it in another way than it is registered. */
function answerAddress({ redirectUri, state }: AnswerTarget, answer: Record<string, string>): string {
  const query = new URLSearchParams({ ...answer, ...(state !== null && { state }) });
  return `${redirectUri}${redirectUri.includes("?") ? "&" : "?"}${query}`;
}
