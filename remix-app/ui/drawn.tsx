import { createContext, type ReactNode, useContext } from "react";
import { markupOf } from "./markup.ts";

/** Whether a page comes without the script that would take its elements over. */
export const Unscripted = createContext(false);

export interface DrawnProps {
  as: "header" | "main";
  id?: string;
  tabIndex?: number;
  className?: string;
  children: ReactNode;
}

/**
 * A part of a page, which the server writes by itself where no script takes it over: React's own renderer, which also
 * keeps what that would need, takes four times as long.
 */
export function Drawn({ as: Part, children, ...props }: DrawnProps) {
  const unscripted = useContext(Unscripted);
  const written = import.meta.env.SSR && unscripted ? markupOf(children) : null;
  if (written === null) return <Part {...props}>{children}</Part>;
  // biome-ignore lint/security/noDangerouslySetInnerHtml: our own elements, every text in them escaped
  return <Part {...props} dangerouslySetInnerHTML={{ __html: written }} />;
}
