import {
  type AuthenticationResponseJSON,
  browserSupportsWebAuthnAutofill,
  type PublicKeyCredentialRequestOptionsJSON,
  sendSignal,
} from "@simplewebauthn/browser";
import { getAssertion } from "./assertion.ts";
import { findBotToken } from "./bot-token.ts";
import { postJson } from "./server.ts";
import { unsupportedReason } from "./support.ts";

// The sign-in page's passkey script: autofill where the browser supports it, and the button.

interface Challenge {
  challengeId: string;
  options: PublicKeyCredentialRequestOptionsJSON;
}

/** A challenge that expires within this time is not used, because answering takes a moment. */
const expiryMarginMs = 60_000;
const defaultTimeoutMs = 300_000;

const section = document.querySelector<HTMLElement>("[data-passkey-sign-in]");
if (section) offerPasskeys(section);

function offerPasskeys(section: HTMLElement): void {
  const [button, note, alert] = ["button", "[data-note]", "[role=alert]"].map((part) =>
    section.querySelector(part),
  ) as [HTMLButtonElement, HTMLElement, HTMLElement];
  const field = document.querySelector<HTMLInputElement>("input[autocomplete~=webauthn]");
  const botToken = findBotToken();
  /** The challenge that autofill and the button share until it is answered or expires. */
  let cached: { challenge: Challenge; usableUntil: number } | undefined;
  let pendingChallenge: Promise<Challenge> | undefined;
  let ceremony = new AbortController();
  let byButton = false;

  const unsupported = unsupportedReason();
  if (unsupported) {
    note.textContent = unsupported;
    return;
  }
  button.disabled = false;
  button.addEventListener("click", () => void signInByButton());
  botToken?.onChange(followBotToken);
  followBotToken();
  // A challenge can expire while the tab is in the background.
  document.addEventListener("visibilitychange", () => document.hidden || usableChallenge() || void offerAutofill());
  // A page restored from the back/forward cache has lost its ceremony.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    byButton = false;
    note.textContent = "";
    void offerAutofill();
  });
  void offerAutofill();

  function usableChallenge(): Challenge | undefined {
    return cached && performance.now() < cached.usableUntil ? cached.challenge : undefined;
  }

  async function getChallenge(): Promise<Challenge> {
    const fresh = usableChallenge();
    if (fresh) return fresh;
    pendingChallenge ??= postJson<Challenge>("/login/passkey/options", { captchaToken: botToken?.take() })
      .then((answer) => {
        if (!answer.ok) throw new Refusal(answer.detail);
        const { timeout = defaultTimeoutMs } = answer.body.options;
        cached = { challenge: answer.body, usableUntil: performance.now() + timeout - expiryMarginMs };
        return answer.body;
      })
      .finally(() => {
        pendingChallenge = undefined;
      });
    return pendingChallenge;
  }

  /** Aborts the current ceremony, because the browser allows only one at a time. */
  function beginCeremony(): AbortSignal {
    ceremony.abort();
    ceremony = new AbortController();
    return ceremony.signal;
  }

  async function offerAutofill(): Promise<void> {
    if (byButton) return;
    const signal = beginCeremony();
    if (!(await browserSupportsWebAuthnAutofill()) || signal.aborted) return;
    // Fetching a passkey challenge would use up the bot challenge's single-use token before the person does anything.
    if (botToken && !usableChallenge()) return;
    // The person has not asked for anything yet, so failures stay silent.
    const challenge = await getChallenge().catch(() => undefined);
    if (!challenge || signal.aborted) return;
    const usableForMs = (cached?.usableUntil ?? 0) - performance.now();
    const renewal = setTimeout(() => document.hidden || void offerAutofill(), usableForMs);
    signal.addEventListener("abort", () => clearTimeout(renewal));
    try {
      const credential = await getAssertion(challenge.options, { signal, mediation: "conditional" });
      clearTimeout(renewal);
      await signIn(challenge, credential);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal) showError(error.message);
      // Waits for a user action, so that a person who closed the prompt is not asked again and again.
      for (const event of ["focus", "pointerdown"])
        field?.addEventListener(event, offerAutofill, { once: true, signal });
    }
  }

  async function signInByButton(): Promise<void> {
    const signal = beginCeremony();
    byButton = true;
    alert.hidden = true;
    note.textContent = "Waiting for your passkey…";
    try {
      const challenge = await getChallenge();
      if (signal.aborted) return;
      await signIn(challenge, await getAssertion(challenge.options, { signal }));
    } catch (error) {
      if (signal.aborted) return;
      byButton = false;
      showError(messageFor(error));
      void offerAutofill();
    }
  }

  async function signIn({ challengeId, options }: Challenge, credential: AuthenticationResponseJSON): Promise<void> {
    // A challenge is valid for one answer, even a rejected one.
    cached = undefined;
    alert.hidden = true;
    note.textContent = "Signing you in…";
    const { returnUrl, verifyAt = "" } = section.dataset;
    const answer = await postJson<{ redirectTo: string }>(verifyAt, { challengeId, credential, returnUrl });
    if (answer.ok) return location.assign(answer.body.redirectTo);
    if (answer.unknownPasskey && options.rpId)
      reportUnknownPasskey({ rpID: options.rpId, credentialID: credential.id });
    throw new Refusal(answer.detail);
  }

  /** Shows why the button is disabled. The bot challenge's widget disables it. */
  function followBotToken(): void {
    if (!botToken || byButton) return;
    note.textContent = botToken.ready() ? "" : "To use a passkey, first complete the check that you’re human.";
  }

  function showError(message: string): void {
    note.textContent = "";
    alert.textContent = message;
    alert.hidden = false;
  }
}

/** Carries our server's refusal as a message for the person. */
class Refusal extends Error {}

function messageFor(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (error instanceof DOMException && error.name === "NotAllowedError") {
    return "No passkey was used: the prompt was closed or timed out, or this device has no passkey for this site.";
  }
  return "Your browser couldn’t use a passkey here. Use another way to sign in.";
}

/** Tells the browser that a passkey no longer belongs to an account, where the browser supports that. */
function reportUnknownPasskey(unknown: { rpID: string; credentialID: string }): void {
  sendSignal({ signalName: "unknownCredential", ...unknown }).catch(() => undefined);
}
