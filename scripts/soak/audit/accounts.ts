import { type Verdict, verdict } from "./verdict.ts";

/** What happened when a browser tried to switch to an account that was never signed out. */
export type AccountFact = {
  actor: string;
  accountId: string;
  /** Whether the browser now acts as the account. */
  opened: boolean;
  /** The server's answer to the account switch. */
  answered: string;
  /** Whether the account's session still exists; helps to investigate a failure. */
  sessionLives: boolean;
};

/** A session or app session that was ended, and whether it still works. */
export type EndedFact = { actor: string; what: string; alive: boolean; how: string };

/** Checks that every browser can still open every account that wasn't signed out. */
export function judgeAccounts(accounts: readonly AccountFact[]): Verdict {
  const failures = accounts
    .filter(({ opened }) => !opened)
    .map(
      ({ actor, accountId, answered, sessionLives }) =>
        `${actor} cannot open ${accountId}: ${answered}; its session ${sessionLives ? "lives" : "is gone unexpectedly"}`,
    );
  return verdict("no lost account", { figures: `${accounts.length} accounts opened`, failures });
}

/** Checks that no session works after its sign-out. */
export function judgeEnded(ended: readonly EndedFact[]): Verdict {
  const failures = ended
    .filter(({ alive }) => alive)
    .map(({ actor, what, how }) => `${actor}: ${what} is alive, though ${how}`);
  const kinds = Map.groupBy(ended, ({ what }) => what.split(" ").slice(0, -1).join(" "));
  const figures = [...kinds].map(([kind, { length }]) => `${length} × ${kind}`).join(", ");
  return verdict("no session alive after its sign-out", { figures: figures || "none ended", failures });
}
