import type { ReactNode } from "react";

/** Before an email's @ and after its dots. Other words with dots stay whole. */
const breaks = /(?<=\.)(?=[^\s@]*@)|(?=@)|(?<=@[^\s@]*\.)(?=\S)/;

/**
 * Shows an email, alone or within text, that can wrap before its @ and after its dots, and elsewhere only if necessary.
 */
export function Address({ children }: { children: string }) {
  const parts: ReactNode[] = children.split(breaks);
  return (
    <span className="wrap-anywhere">
      {parts.reduce((before, part) => (
        <>
          {before}
          <wbr />
          {part}
        </>
      ))}
    </span>
  );
}
