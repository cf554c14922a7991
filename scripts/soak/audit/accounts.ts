import { type Verdict, verdict } from "./verdict.ts";

/** What became of opening an account that nobody had signed out of. */
export type AccountFact = {
  actor: string;
  accountId: string;
  /** The browser acts as this account now. */
  opened: boolean;
  /** What the switch was answered. */
  answered: string;
  /** Whether its session is still there, for whoever looks into it. */
  sessionLives: boolean;
};

/** A session or app session that was ended, and whether it still does anything. */
export type EndedFact = { actor: string; what: string; alive: boolean; how: string };

/** Every browser still opens every account that nobody signed out of. */
export function judgeAccounts(accounts: readonly AccountFact[]): Verdict {
  const failures = accounts
    .filter(({ opened }) => !opened)
    .map(
      ({ actor, accountId, answered, sessionLives }) =>
        `${actor} cannot open ${accountId}: ${answered}; its session ${sessionLives ? "lives" : "is gone, and nobody ended it"}`,
    );
  return verdict("no lost account", { figures: `${accounts.length} accounts opened`, failures });
}

/** Nothing lives on after its sign-out. */
export function judgeEnded(ended: readonly EndedFact[]): Verdict {
  const failures = ended
    .filter(({ alive }) => alive)
    .map(({ actor, what, how }) => `${actor}: ${what} is alive, though ${how}`);
  const kinds = Map.groupBy(ended, ({ what }) => what.split(" ").slice(0, -1).join(" "));
  const figures = [...kinds].map(([kind, { length }]) => `${length} × ${kind}`).join(", ");
  return verdict("no session alive after its sign-out", { figures: figures || "none ended", failures });
}
