import { Button } from "../../ui/button.tsx";
import { TextArea } from "../../ui/field.tsx";
import type { FieldErrors } from "./chat-form.ts";
import type { ToolCall } from "./chat-message.ts";

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

interface ComposerProps {
  /** The calls that wait for results. */
  calls: readonly ToolCall[];
  typed: Record<string, string>;
  errors: FieldErrors;
}

/** What comes next: a message, or the results of the tools that the model has called. */
export function Composer({ calls, typed, errors }: ComposerProps) {
  if (calls.length === 0) {
    return <TextArea name="prompt" label="Message" defaultValue={typed.prompt} error={errors.prompt} />;
  }
  return (
    <div className="space-y-4">
      {calls.map(({ id, function: { name } }, index) => (
        <TextArea
          key={id}
          name={`result${index}`}
          label={`Result of ${name}`}
          hint="What your program would answer; JSON or words."
          mono
          spellCheck={false}
          defaultValue={typed[`result${index}`]}
          error={errors[`result${index}`]}
        />
      ))}
    </div>
  );
}
