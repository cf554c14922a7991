import { sendSignal } from "@simplewebauthn/browser";

// Tells the browser which passkeys of this account work and what the account is now called (WebAuthn level 3, section
// 5.1.10). A browser that supports this then offers neither deleted passkeys nor old names.

/** The account data that the page passes in `data-passkey-signals`. */
export interface Signals {
  rpID: string;
  userID: string;
  userName: string;
  userDisplayName: string;
  allAcceptedCredentialIDs: string[];
}

for (const { dataset } of document.querySelectorAll<HTMLElement>("[data-passkey-signals]")) {
  const { rpID, userID, allAcceptedCredentialIDs, ...names }: Signals = JSON.parse(dataset.passkeySignals ?? "");
  const unwanted = () => undefined;
  sendSignal({ signalName: "allAcceptedCredentials", rpID, userID, allAcceptedCredentialIDs }).catch(unwanted);
  sendSignal({ signalName: "currentUserDetails", rpID, userID, ...names }).catch(unwanted);
}
