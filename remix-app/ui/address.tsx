import { Fragment, type ReactNode } from "react";

/** Matches the places where an email may break: before its @ and after its dots. Other words with dots stay whole. */
const breaks = /(?<=\.)(?=[^\s@]*@)|(?=@)|(?<=@[^\s@]*\.)(?=\S)/;
/**
 * Matches the places where an email address may wrap if its domain must stay whole: after each dot before the @, and
 * before the @ unless the address is masked.
 */
const breaksBeforeDomain = /(?<=\.)(?=[^\s@]*@)|(?<!•)(?=@)/;
/** Matches a domain's hyphens with the character on each side, to prevent a line break after the hyphen. */
const hyphens = /(?<=@[^\s@]*)([^\s@-]-+[^\s@-])/;

/**
 * Shows an email address, alone or in a sentence. If the line is too short, the address breaks before its @ and after
 * its dots, and elsewhere only if necessary.
 * @param props.whole keeps the domain on one line if it fits
 */
export function EmailAddress({ children, whole = false }: { children: string; whole?: boolean }) {
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
