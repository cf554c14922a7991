/**
 * The result of a check. `fail` means missing or unsafe, `warn` means allowed but seldom intended, and `unseen` means
 * that it cannot be checked from here.
 */
export interface Finding {
  level: "ok" | "warn" | "fail" | "unseen";
  /** A short name of the thing that was examined. */
  about: string;
  /** The result, and what to do if something is wrong. Never includes a secret's value. */
  says: string;
}

export const ok = (about: string, says: string): Finding => ({ level: "ok", about, says });
export const warn = (about: string, says: string): Finding => ({ level: "warn", about, says });
export const fail = (about: string, says: string): Finding => ({ level: "fail", about, says });
export const unseen = (about: string, says: string): Finding => ({ level: "unseen", about, says });
