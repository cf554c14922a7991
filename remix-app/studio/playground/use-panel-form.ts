import { type FormEvent, type KeyboardEvent, useEffect, useState } from "react";
import type { FieldErrors } from "./chat-form.ts";

/** What a panel's form holds and what is wrong with it, and its keys: Ctrl+Enter sends, Escape stops. */
export function usePanelForm(options: {
  initial: { typed: Record<string, string>; errors: FieldErrors };
  /** An answer is under way. */
  busy: boolean;
  stop: () => void;
}) {
  const { initial, busy, stop } = options;
  const [typed, setTyped] = useState(initial.typed);
  const [errors, setErrors] = useState(initial.errors);
  const [attempts, setAttempts] = useState(0);

  useEffect(() => {
    if (!busy) return;
    const stopByEscape = (event: globalThis.KeyboardEvent) => event.key === "Escape" && stop();
    document.addEventListener("keydown", stopByEscape);
    return () => document.removeEventListener("keydown", stopByEscape);
  }, [busy, stop]);

  return {
    typed,
    setTyped,
    errors,
    /** Counts attempts, so that each takes the focus to what is wrong anew. */
    attempts,
    tell(found: FieldErrors) {
      setErrors(found);
      setAttempts((count) => count + 1);
    },
    onInput: (event: FormEvent<HTMLFormElement>) => setTyped(typedIn(new FormData(event.currentTarget))),
    onKeyDown(event: KeyboardEvent<HTMLFormElement>) {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
    },
  };
}

/** What stands in a form's fields, by their names; of several of one name the last. */
export function typedIn(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
}

/** {@link typedIn} the other way round. */
export function formOf(typed: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(typed)) form.set(name, value);
  return form;
}
