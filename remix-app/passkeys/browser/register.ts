import { type PublicKeyCredentialCreationOptionsJSON, startRegistration, WebAuthnError } from "@simplewebauthn/browser";
import { postJson, type Refusal } from "./server.ts";
import { unsupportedReason } from "./support.ts";

// The script of the page that adds a passkey.

interface Challenge {
  challengeId: string;
  options: PublicKeyCredentialCreationOptionsJSON;
}

const section = document.querySelector<HTMLElement>("[data-passkey-register]");
if (section) offerRegistration(section);

function offerRegistration(section: HTMLElement): void {
  const [button, note, alert] = ["button", "[data-note]", "[role=alert]"].map((part) =>
    section.querySelector(part),
  ) as [HTMLButtonElement, HTMLElement, HTMLElement];
  const unsupported = unsupportedReason();
  note.textContent = unsupported ?? "Your browser will ask where to save it.";
  if (unsupported) return;
  let isRunning = false;
  button.disabled = false;
  button.addEventListener("click", async () => {
    if (isRunning) return;
    isRunning = true;
    alert.hidden = true;
    note.textContent = "Waiting for your device…";
    const failure = await register().catch(messageFor);
    isRunning = false;
    if (failure === null) return;
    note.textContent = "";
    alert.textContent = failure;
    alert.hidden = false;
  });

  /** @returns the error message, or null if the browser leaves this page */
  async function register(): Promise<string | null> {
    const challenge = await postJson<Challenge>("/settings/security/passkeys/options", {
      pageAccount: document.documentElement.dataset.account,
    });
    if (!challenge.ok) return handleRefusal(challenge);
    const { challengeId, options } = challenge.body;
    const credential = await startRegistration({ optionsJSON: options });
    note.textContent = "Saving your passkey…";
    const registration = await postJson<{ redirectTo: string }>("/settings/security/passkeys", {
      challengeId,
      credential,
    });
    if (!registration.ok) return handleRefusal(registration);
    location.assign(registration.body.redirectTo);
    return null;
  }
}

/**
 * Returns the message to show. If the session has changed, reloads the page instead, which redirects to the required
 * step and then back.
 */
function handleRefusal({ status, detail }: Refusal): string | null {
  if (status !== 0) return detail;
  location.reload();
  return null;
}

function messageFor(error: unknown): string {
  if (error instanceof WebAuthnError && error.code === "ERROR_AUTHENTICATOR_PREVIOUSLY_REGISTERED") {
    return "This device already has a passkey for your account. Choose another device or password manager.";
  }
  if (error instanceof Error && error.name === "NotAllowedError") {
    return "No passkey was created: the prompt was closed or timed out. Try again when you’re ready.";
  }
  return "Your browser couldn’t create a passkey here. Try another browser or device.";
}
