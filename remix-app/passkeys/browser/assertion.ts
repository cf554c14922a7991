import {
  type AuthenticationResponseJSON,
  base64URLStringToBuffer,
  bufferToBase64URLString,
  type PublicKeyCredentialRequestOptionsJSON,
} from "@simplewebauthn/browser";

export interface AssertionOptions {
  signal: AbortSignal;
  /** With `conditional`, the browser offers passkeys in the email field's autofill while the page is open. */
  mediation?: "conditional";
}

/**
 * Lets the browser answer a challenge with one of the person's passkeys. Uses the conversions of
 * @simplewebauthn/browser but not its `startAuthentication`, which begins autofill after a delay and may then abort a
 * ceremony that began during the delay.
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
    // Names no credential, because any passkey of this site will do.
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
