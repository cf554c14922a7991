import type { ReactNode } from "react";

/** A surface for one table, list or chart whose page already says what it is. */
export function Panel({ children }: { children: ReactNode }) {
  return <div className="min-w-0 rounded-card border border-line bg-surface p-4 sm:px-5">{children}</div>;
}
