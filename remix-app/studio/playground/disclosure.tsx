import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";

/** What is seldom needed, behind its name. It opens where there is reason to, and closes for the reader alone. */
export function Disclosure({ label, open, children }: { label: string; open: boolean; children: ReactNode }) {
  const [shown, setShown] = useState(open);
  useEffect(() => {
    if (open) setShown(true);
  }, [open]);
  return (
    <details open={shown} onToggle={({ currentTarget }) => setShown(currentTarget.open)} className="group space-y-3">
      <summary className="flex min-h-6 cursor-pointer items-center gap-1.5 rounded-button font-medium">
        <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted group-open:rotate-90" />
        {label}
      </summary>
      {children}
    </details>
  );
}
