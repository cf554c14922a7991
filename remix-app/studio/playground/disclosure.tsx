import { type ReactNode, useEffect, useState } from "react";

/** What is seldom needed, behind its name. It opens where there is reason to, and closes for the reader alone. */
export function Disclosure({ label, open, children }: { label: string; open: boolean; children: ReactNode }) {
  const [shown, setShown] = useState(open);
  useEffect(() => {
    if (open) setShown(true);
  }, [open]);
  return (
    <details open={shown} onToggle={({ currentTarget }) => setShown(currentTarget.open)} className="space-y-3">
      <summary className="cursor-pointer rounded-button font-medium">{label}</summary>
      {children}
    </details>
  );
}
