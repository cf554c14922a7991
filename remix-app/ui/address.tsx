import type { ReactNode } from "react";

/**
 * An email address, alone or among words, that breaks where it is longer than its line: before its @ and
 * after its dots, and elsewhere only in need.
 */
export function Address({ children }: { children: string }) {
  const parts: ReactNode[] = children.split(/(?<=\.)|(?=@)/);
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
