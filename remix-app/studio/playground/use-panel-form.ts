import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { FieldErrors } from "./chat-form.ts";

/** Manages a panel's form: its values, its errors and its shortcuts. Ctrl+Enter sends, Escape stops. */
export function usePanelForm(options: {
  initial: { typed: Record<string, string>; errors: FieldErrors };
  /** Whether a request is in progress. */
  busy: boolean;
  stop: () => void;
}) {
  const { initial, busy, stop } = options;
  const [typed, setTyped] = useState(initial.typed);
  const [errors, setErrors] = useState(initial.errors);
  const [attempts, setAttempts] = useState(0);
  const form = useRef<HTMLFormElement>(null);

  // Reads what was typed before this script ran.
  useEffect(() => {
    if (form.current) setTyped(typedIn(new FormData(form.current)));
  }, []);

  useEffect(() => {
    if (!busy) return;
    const stopByEscape = (event: globalThis.KeyboardEvent) => event.key === "Escape" && stop();
    document.addEventListener("keydown", stopByEscape);
    return () => document.removeEventListener("keydown", stopByEscape);
  }, [busy, stop]);

  return {
    form,
    typed,
    setTyped,
    errors,
    /** Counts attempts, so that each attempt moves the focus to the errors again. */
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

/** Returns a form's values by field name. If several fields have the same name, the last one is used. */
export function typedIn(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
}

/** Returns a form with the given values. The inverse of {@link typedIn}. */
export function formOf(typed: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(typed)) form.set(name, value);
  return form;
}
