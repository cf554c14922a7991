import {
  type AuthenticationResponseJSON,
  browserSupportsWebAuthnAutofill,
  type PublicKeyCredentialRequestOptionsJSON,
  sendSignal,
} from "@simplewebauthn/browser";
import { getAssertion } from "./assertion.ts";
import { findBotToken } from "./bot-token.ts";
import { post } from "./server.ts";
import { whyUnsupported } from "./support.ts";

// The sign-in page's script for passkeys: autofill where the browser has it, and the button.

interface Challenge {
  challengeId: string;
  options: PublicKeyCredentialRequestOptionsJSON;
}

/** A challenge that runs out this soon is not begun with: people need a moment. */
const marginMs = 60_000;
const defaultTimeoutMs = 300_000;

const section = document.querySelector<HTMLElement>("[data-passkey-sign-in]");
if (section) offerPasskeys(section);

function offerPasskeys(section: HTMLElement): void {
  const [button, note, alert] = ["button", "[data-note]", "[role=alert]"].map((part) =>
    section.querySelector(part),
  ) as [HTMLButtonElement, HTMLElement, HTMLElement];
  const field = document.querySelector<HTMLInputElement>("input[autocomplete~=webauthn]");
  const botToken = findBotToken();
  /** Serves autofill and then the button, until it is answered or has run out. */
  let held: { challenge: Challenge; usableUntil: number } | undefined;
  let asking: Promise<Challenge> | undefined;
  let ceremony = new AbortController();
  let byButton = false;

  const unsupported = whyUnsupported();
  if (unsupported) {
    note.textContent = unsupported;
    return;
  }
  button.disabled = false;
  button.addEventListener("click", () => void signInByButton());
  botToken?.onChange(followBotToken);
  followBotToken();
  // A challenge runs out while nobody looks.
  document.addEventListener("visibilitychange", () => document.hidden || freshChallenge() || void offerAutofill());
  // A page from the browser's cache has lost its ceremony.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    byButton = false;
    note.textContent = "";
    void offerAutofill();
  });
  void offerAutofill();

  function freshChallenge(): Challenge | undefined {
    return held && performance.now() < held.usableUntil ? held.challenge : undefined;
  }

  async function getChallenge(): Promise<Challenge> {
    const fresh = freshChallenge();
    if (fresh) return fresh;
    asking ??= post<Challenge>("/login/passkey/options", { captchaToken: botToken?.take() })
      .then((answer) => {
        if (!answer.ok) throw new Refusal(answer.detail);
        const { timeout = defaultTimeoutMs } = answer.body.options;
        held = { challenge: answer.body, usableUntil: performance.now() + timeout - marginMs };
        return answer.body;
      })
      .finally(() => {
        asking = undefined;
      });
    return asking;
  }

  /** Ends the ceremony that is under way, so that the browser has one at a time. */
  function beginCeremony(): AbortSignal {
    ceremony.abort();
    ceremony = new AbortController();
    return ceremony.signal;
  }

  async function offerAutofill(): Promise<void> {
    if (byButton) return;
    const signal = beginCeremony();
    if (!(await browserSupportsWebAuthnAutofill()) || signal.aborted) return;
    // A bot challenge's token is good for one call: it is left for what somebody asks for.
    if (botToken && !freshChallenge()) return;
    // Nobody has asked for anything yet, so nothing is said of what fails.
    const challenge = await getChallenge().catch(() => undefined);
    if (!challenge || signal.aborted) return;
    const usableForMs = (held?.usableUntil ?? 0) - performance.now();
    const renewal = setTimeout(() => document.hidden || void offerAutofill(), usableForMs);
    signal.addEventListener("abort", () => clearTimeout(renewal));
    try {
      const credential = await getAssertion(challenge.options, { signal, mediation: "conditional" });
      clearTimeout(renewal);
      await signIn(challenge, credential);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal) say(error.message);
      // Not by itself: who closed the prompt is not to be asked for ever.
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
      say(wordsFor(error));
      void offerAutofill();
    }
  }

  async function signIn({ challengeId, options }: Challenge, credential: AuthenticationResponseJSON): Promise<void> {
    // It is good for one answer, whatever comes of that.
    held = undefined;
    alert.hidden = true;
    note.textContent = "Signing you in…";
    const { returnUrl, verifyAt = "" } = section.dataset;
    const answer = await post<{ redirectTo: string }>(verifyAt, { challengeId, credential, returnUrl });
    if (answer.ok) return location.assign(answer.body.redirectTo);
    if (answer.unknownPasskey && options.rpId) forget({ rpID: options.rpId, credentialID: credential.id });
    throw new Refusal(answer.detail);
  }

  /** The widget blocks the button itself; beside it stands why. */
  function followBotToken(): void {
    if (!botToken || byButton) return;
    note.textContent = botToken.ready() ? "" : "Complete the check that you’re human to use a passkey.";
  }

  function say(message: string): void {
    note.textContent = "";
    alert.textContent = message;
    alert.hidden = false;
  }
}

/** What our server refused, in words for the person at the screen. */
class Refusal extends Error {}

function wordsFor(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (error instanceof DOMException && error.name === "NotAllowedError") {
    return "No passkey was used: the prompt was closed or timed out, or this device has no passkey for this site.";
  }
  return "Your browser couldn’t use a passkey here. Use another way to sign in.";
}

/** Lets the browser forget a passkey that no account has, where it can. */
function forget(unknown: { rpID: string; credentialID: string }): void {
  sendSignal({ signalName: "unknownCredential", ...unknown }).catch(() => undefined);
}
