import { Fragment, type ReactNode } from "react";

/** Before an email's @ and after its dots. Other words with dots stay whole. */
const breaks = /(?<=\.)(?=[^\s@]*@)|(?=@)|(?<=@[^\s@]*\.)(?=\S)/;
/** As {@link breaks}, but not in the domain. */
const breaksBeforeDomain = /(?<=\.)(?=[^\s@]*@)|(?=@)/;
/** The hyphens of a domain, each with its neighbours, which browsers would break after. */
const hyphens = /(?<=@[^\s@]*)([^\s@-]-+[^\s@-])/;

/**
 * An email address, alone or among words, that breaks where it is longer than its line: before its @ and after its dots,
 * and elsewhere only in need.
 * @param props.whole keeps the domain on one line if it fits
 */
export function Address({ children, whole = false }: { children: string; whole?: boolean }) {
  const parts: ReactNode[] = whole ? children.split(breaksBeforeDomain).map(withWholeHyphens) : children.split(breaks);
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

function withWholeHyphens(text: string): ReactNode {
  const parts = text.split(hyphens);
  if (parts.length === 1) return text;
  return parts.map((part, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text
    <Fragment key={index}>{index % 2 === 0 ? part : <span className="whitespace-nowrap">{part}</span>}</Fragment>
  ));
}
