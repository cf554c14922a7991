import {
  type AuthenticationResponseJSON,
  base64URLStringToBuffer,
  bufferToBase64URLString,
  type PublicKeyCredentialRequestOptionsJSON,
} from "@simplewebauthn/browser";

export interface AssertionOptions {
  signal: AbortSignal;
  /** Conditional: offered in the email field's autofill, for as long as the page is open. */
  mediation?: "conditional";
}

/**
 * Lets the browser answer a challenge with one of the person's passkeys. The conversions are @simplewebauthn/browser's;
 * its `startAuthentication` is not, since it begins autofill after a wait of its own, and so may abort the very
 * ceremony that was to replace it.
 * @throws DOMException of navigator.credentials.get: NotAllowedError, AbortError, SecurityError …
 */
export async function getAssertion(
  options: PublicKeyCredentialRequestOptionsJSON,
  { signal, mediation }: AssertionOptions,
): Promise<AuthenticationResponseJSON> {
  const { challenge, timeout, rpId, userVerification } = options;
  const credential = (await navigator.credentials.get({
    signal,
    ...(mediation ? { mediation } : {}),
    // Any passkey of this site will do, so none is named.
    publicKey: { challenge: base64URLStringToBuffer(challenge), timeout, rpId, userVerification },
  })) as PublicKeyCredential;
  const response = credential.response as AuthenticatorAssertionResponse;
  return {
    id: credential.id,
    rawId: bufferToBase64URLString(credential.rawId),
    type: "public-key",
    clientExtensionResults: {},
    response: {
      authenticatorData: bufferToBase64URLString(response.authenticatorData),
      clientDataJSON: bufferToBase64URLString(response.clientDataJSON),
      signature: bufferToBase64URLString(response.signature),
      ...(response.userHandle ? { userHandle: bufferToBase64URLString(response.userHandle) } : {}),
    },
  };
}
