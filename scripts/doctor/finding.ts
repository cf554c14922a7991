/**
 * The result of a check: `fail` is missing or unsafe, `warn` is allowed but seldom intended, `unseen` cannot be checked
 * from here.
 */
export interface Finding {
  level: "ok" | "warn" | "fail" | "unseen";
  /** What was examined, in a word or two. */
  about: string;
  /** What was found, and what to do if something is wrong. Never includes a secret's value. */
  says: string;
}

export const ok = (about: string, says: string): Finding => ({ level: "ok", about, says });
export const warn = (about: string, says: string): Finding => ({ level: "warn", about, says });
export const fail = (about: string, says: string): Finding => ({ level: "fail", about, says });
export const unseen = (about: string, says: string): Finding => ({ level: "unseen", about, says });
