import { isIPv6 } from "node:net";
import { collapseWhitespace } from "../http/collapse-whitespace.ts";

/**
 * Barely visible, but link detectors treat it as whitespace. A zero-width character would not work: Android's
 * `Patterns.UCS_CHAR` accepts U+2060 as a letter of a host name, but not U+2000–U+200A.
 */
const hairSpace = "\u200A";
/**
 * Matches dots, colons, at signs, backslashes and double slashes inside a word, and the characters that IDNA reads as
 * dots.
 */
const linkJointPattern = /[.:@\\\u2024\u3002\uFE52\uFF0E\uFF61](?=\S)|\/(?=\/)/gu;
/**
 * Matches IPv6 addresses, except those with a zone or an embedded IPv4 address, which link detectors could take for a
 * domain.
 */
const isBareIPv6 = (word: string) => isIPv6(word) && !/[%.]/.test(word);
/** Matches text that occurs in links, but not in amounts, times and other numbers. */
const linkLike = /[\p{L}@\\]|\/\/|\.\p{N}+\.\p{N}/u;

/** Breaks everything that email programs turn into links: URLs, domains, IPv4 and email addresses, file shares. */
export function breakLinks(text: string): string {
  return text.replaceAll(/\S+/gu, (word) =>
    linkLike.test(word) && !isBareIPv6(word) ? word.replaceAll(linkJointPattern, `$&${hairSpace}`) : word,
  );
}

/** Formats a name or another value for an email: on one line, without anything that becomes a link. */
export function quoteText(text: string): string {
  return breakLinks(collapseWhitespace(text));
}
