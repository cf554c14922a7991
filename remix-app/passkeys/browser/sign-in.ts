import {
  type AuthenticationResponseJSON,
  browserSupportsWebAuthnAutofill,
  type PublicKeyCredentialRequestOptionsJSON,
  sendSignal,
} from "@simplewebauthn/browser";
import { getAssertion } from "./assertion.ts";
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
  /** Serves autofill and then the button, until it is answered or has run out. */
  let held: { challenge: Challenge; usableUntil: number } | undefined;
  let asking: Promise<Challenge> | undefined;
  let underWay = new AbortController();

  const unsupported = whyUnsupported();
  if (unsupported) {
    note.textContent = unsupported;
    return;
  }
  button.disabled = false;
  button.addEventListener("click", () => void signInByButton());
  // A challenge runs out while nobody looks, and a page from the browser's cache has lost its ceremony.
  document.addEventListener("visibilitychange", () => document.hidden || freshChallenge() || void offerAutofill());
  window.addEventListener("pageshow", ({ persisted }) => persisted && void offerAutofill());
  void offerAutofill();

  function freshChallenge(): Challenge | undefined {
    return held && performance.now() < held.usableUntil ? held.challenge : undefined;
  }

  async function getChallenge(): Promise<Challenge> {
    const fresh = freshChallenge();
    if (fresh) return fresh;
    asking ??= post<Challenge>("/login/passkey/options", {})
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

  /** Ends what is under way, so that the browser has one ceremony at a time. */
  function take(): AbortSignal {
    underWay.abort();
    underWay = new AbortController();
    return underWay.signal;
  }

  async function offerAutofill(): Promise<void> {
    const signal = take();
    if (!(await browserSupportsWebAuthnAutofill())) return;
    // Nobody has asked for anything yet, so nothing is said of what fails.
    const challenge = await getChallenge().catch(() => undefined);
    if (!challenge || signal.aborted) return;
    const renewal = setTimeout(
      () => document.hidden || void offerAutofill(),
      Math.max(0, (held?.usableUntil ?? 0) - performance.now()),
    );
    signal.addEventListener("abort", () => clearTimeout(renewal));
    try {
      const credential = await getAssertion(challenge.options, { signal, mediation: "conditional" });
      clearTimeout(renewal);
      await signIn(challenge, credential);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal) {
        say(error.message);
        void offerAutofill();
      } else {
        // The prompt was closed. Some browsers take autofill's passkeys away with it.
        field?.addEventListener("focus", () => void offerAutofill(), { once: true });
      }
    }
  }

  async function signInByButton(): Promise<void> {
    const signal = take();
    alert.hidden = true;
    note.textContent = "Waiting for your passkey…";
    try {
      const challenge = await getChallenge();
      if (signal.aborted) return;
      await signIn(challenge, await getAssertion(challenge.options, { signal }));
    } catch (error) {
      if (signal.aborted) return;
      say(wordsFor(error));
      void offerAutofill();
    }
  }

  async function signIn({ challengeId, options }: Challenge, credential: AuthenticationResponseJSON): Promise<void> {
    // It is good for one answer, whatever comes of that.
    held = undefined;
    alert.hidden = true;
    note.textContent = "Signing you in…";
    const { returnUrl } = section.dataset;
    const answer = await post<{ redirectTo: string }>("/login/passkey", { challengeId, credential, returnUrl });
    if (answer.ok) return location.assign(answer.body.redirectTo);
    if (answer.unknownPasskey && options.rpId) forget({ rpID: options.rpId, credentialID: credential.id });
    throw new Refusal(answer.detail);
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
    return "No passkey was used: the prompt was closed or ran out of time, or this device has no passkey for this site.";
  }
  return "Your browser could not use a passkey here. Use another way to sign in.";
}

/** Lets the browser forget a passkey that no account has, where it can. */
function forget(unknown: { rpID: string; credentialID: string }): void {
  sendSignal({ signalName: "unknownCredential", ...unknown }).catch(() => undefined);
}
