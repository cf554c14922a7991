import { randomInt } from "node:crypto";

/** Consonants, so that codes don't spell words, and without Y, which keyboards swap with Z (RFC 8628 section 6.1). */
const letters = "BCDFGHJKLMNPQRSTVWXZ";
const codeLength = 8;
const codePattern = new RegExp(`^[${letters}]{${codeLength}}$`);
const maxTypedLength = 64;

/** Returns a random user code of 34 bits, as the database stores it: "WDJBMJHT". */
export function newUserCode(): string {
  return Array.from({ length: codeLength }, () => letters[randomInt(letters.length)]).join("");
}

/** Parses a user code, ignoring case, spaces and hyphens. Returns null if the text is not a user code. */
export function readUserCode(typed: string): string | null {
  if (typed.length > maxTypedLength) return null;
  const code = typed.toUpperCase().replaceAll(/[\s\p{Pd}]/gu, "");
  return codePattern.test(code) ? code : null;
}

/** Formats a user code for people: "WDJB-MJHT". */
export function formatUserCode(code: string): string {
  return `${code.slice(0, codeLength / 2)}-${code.slice(codeLength / 2)}`;
}
