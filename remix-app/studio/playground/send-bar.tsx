import { Button } from "../../ui/button.tsx";

/** Sends, and stops what is under way. The button that was pressed stays, so that the focus does. */
export function SendBar({ label, busy, stop }: { label: string; busy: boolean; stop: () => void }) {
  return (
    <>
      <Button aria-disabled={busy || undefined} aria-keyshortcuts="Control+Enter">
        {label}
      </Button>
      {busy ? (
        <Button type="button" variant="secondary" aria-keyshortcuts="Escape" onClick={stop}>
          Stop
        </Button>
      ) : null}
    </>
  );
}
