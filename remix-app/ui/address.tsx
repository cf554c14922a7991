import type { ReactNode } from "react";

/** Before an address's @ and after its dots; other words with dots stay as they are. */
const breaks = /(?<=\.)(?=[^\s@]*@)|(?=@)|(?<=@[^\s@]*\.)(?=\S)/;

/**
 * An email address, alone or among words, that breaks where it is longer than its line: before its @ and after its dots,
 * and elsewhere only in need.
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
