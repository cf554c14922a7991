import { Button, ButtonLink } from "../ui/button.tsx";
import { useNonce } from "../ui/inline-script.tsx";
import scriptUrl from "./browser/register.ts?worker&url";

/**
 * Renders the button that creates a passkey for this account, and a link back. Its script enables the button if the
 * browser supports passkeys.
 */
export function PasskeyRegistration({ back }: { back: string }) {
  const nonce = useNonce();
  return (
    <div data-passkey-register className="space-y-4">
      <div role="alert" hidden className="rounded-card border border-bad/40 bg-bad-soft p-3" />
      <Button type="button" disabled aria-describedby="passkey-note" className="w-full">
        Add passkey
      </Button>
      <ButtonLink href={back} variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
      <p id="passkey-note" aria-live="polite" className="min-h-[1lh] text-center text-muted text-small">
        <span data-note />
        <noscript>Turn on JavaScript to add a passkey.</noscript>
      </p>
      <script type="module" src={scriptUrl} nonce={nonce} suppressHydrationWarning />
    </div>
  );
}
