import { useNonce } from "../ui/inline-script.tsx";
import type { Signals } from "./browser/signals.ts";
import scriptUrl from "./browser/signals.ts?worker&url";

/** Updates the browser's own list of this account's passkeys. For pages that show or change passkeys. */
export function PasskeySignals({ signals }: { signals: Signals }) {
  const nonce = useNonce();
  return (
    <>
      <div hidden data-passkey-signals={JSON.stringify(signals)} />
      <script type="module" src={scriptUrl} nonce={nonce} suppressHydrationWarning />
    </>
  );
}
