/** What a check found: `fail` is missing or unsafe, `warn` is allowed and seldom meant, `unseen` cannot be told from here. */
export interface Finding {
  level: "ok" | "warn" | "fail" | "unseen";
  /** What was looked at, in a word or two. */
  about: string;
  /** What is so, and what to do where it is not well. Never a secret's value. */
  says: string;
}

export const ok = (about: string, says: string): Finding => ({ level: "ok", about, says });
export const warn = (about: string, says: string): Finding => ({ level: "warn", about, says });
export const fail = (about: string, says: string): Finding => ({ level: "fail", about, says });
export const unseen = (about: string, says: string): Finding => ({ level: "unseen", about, says });
