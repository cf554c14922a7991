import { Button } from "../../ui/button.tsx";

/** Sends, and stops what is under way. The button that was pressed stays, so that the focus does. */
export function SendBar({ label, busy, stop }: { label: string; busy: boolean; stop: () => void }) {
  return (
    <>
      <Button aria-disabled={busy || undefined} aria-keyshortcuts="Control+Enter">
        {label}
      </Button>
      {busy ? (
        <Button
          type="button"
          variant="secondary"
          aria-keyshortcuts="Escape"
          onClick={({ currentTarget }) => {
            // This button goes, and the focus with it.
            currentTarget.form?.querySelector<HTMLButtonElement>("button[aria-disabled]")?.focus();
            stop();
          }}
        >
          Stop
        </Button>
      ) : null}
      <span className="text-muted text-small noscript:hidden">{busy ? "Escape stops" : "Ctrl+Enter"}</span>
    </>
  );
}
