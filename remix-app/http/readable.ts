/** What cannot be seen, breaks a line, or turns what follows it around. Joiners stay: scripts and emoji need them. */
const unseen = /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u;
/** Spaces, joiners, and letters that are drawn as nothing. */
const seen = /[^\s\u00ad\u115f\u1160\u200c-\u200d\u2800\u3164\uffa0]/u;

/**
 * Whether a name is one line of whole characters that people see: names are shown to others, and whatever else JSON may
 * hold could pass for another one. The tables' own checks say the same.
 */
export function isReadable(name: string): boolean {
  return name.isWellFormed() && seen.test(name) && !unseen.test(name);
}
