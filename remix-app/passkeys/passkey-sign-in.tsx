import { KeyRound } from "lucide-react";
import { Button } from "../ui/button.tsx";
import { useNonce } from "../ui/inline-script.tsx";
import scriptUrl from "./browser/sign-in.ts?worker&url";

/**
 * Renders the button that signs in with a passkey. If the browser supports passkeys, the script enables the button and
 * also offers passkeys in the email field's autofill. Vite bundles the script into one file, as it does for workers.
 * @param verifyAt our route that verifies the passkey's answer
 */
export function PasskeySignIn({ returnUrl, verifyAt = "/login/passkey" }: { returnUrl: string; verifyAt?: string }) {
  const nonce = useNonce();
  return (
    // Reserves a line for the note, so that nothing moves when a note appears.
    <div data-passkey-sign-in data-return-url={returnUrl} data-verify-at={verifyAt} className="mb-3 space-y-1">
      <div role="alert" hidden className="mb-2 rounded-card border border-bad/40 bg-bad-soft p-3" />
      <Button
        type="button"
        variant="secondary"
        disabled
        data-needs-bot-challenge
        aria-describedby="passkey-note"
        className="w-full"
      >
        <KeyRound aria-hidden="true" className="size-4" />
        Sign in with a passkey
      </Button>
      <p id="passkey-note" aria-live="polite" className="min-h-[1lh] text-center text-muted text-small">
        <span data-note />
        <noscript>Turn on JavaScript to use passkeys.</noscript>
      </p>
      <script type="module" src={scriptUrl} nonce={nonce} suppressHydrationWarning />
    </div>
  );
}
