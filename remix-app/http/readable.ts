/** What cannot be seen, breaks a line, or turns what follows it around. Joiners stay: scripts and emoji need them. */
const unseen = /[\p{Cc}\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u;
const seen = /[^\s\u200c\u200d]/u;

/**
 * Whether a name is one line of whole characters that people see: names are shown to others, and whatever else JSON may
 * hold could pass for another one. The tables' own checks say the same.
 */
export function isReadable(name: string): boolean {
  return name.isWellFormed() && seen.test(name) && !unseen.test(name);
}
