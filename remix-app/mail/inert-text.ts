import { isIPv6 } from "node:net";
import { asShown } from "../http/as-shown.ts";

/**
 * Barely visible, and whitespace to link detectors. Zero-width characters would not do: Android's `Patterns.UCS_CHAR`
 * takes U+2060 for a letter of a host name, and excludes U+2000–U+200A.
 */
const hairSpace = "\u200A";
/** Dots, colons, at signs, backslashes and double slashes inside a word, with the characters that IDNA reads as dots. */
const joints = /[.:@\\\u2024\u3002\uFE52\uFF0E\uFF61](?=\S)|\/(?=\/)/gu;
/** An IPv6 address without a zone or an IPv4 address in it, which could be a domain to link detectors. */
const isBareIPv6 = (word: string) => isIPv6(word) && !/[%.]/.test(word);
/** What a link has, and amounts, times and other numbers have not. */
const linkLike = /[\p{L}@\\]|\/\/|\.\p{N}+\.\p{N}/u;

/** Breaks everything that mail programs turn into links: URLs, domains, IPv4 and email addresses, file shares. */
export function withoutLinks(text: string): string {
  return text.replaceAll(/\S+/gu, (word) =>
    linkLike.test(word) && !isBareIPv6(word) ? word.replaceAll(joints, `$&${hairSpace}`) : word,
  );
}

/** A name or another value as a mail quotes it: one line, and nothing in it becomes a link. */
export function quoted(text: string): string {
  return withoutLinks(asShown(text));
}
