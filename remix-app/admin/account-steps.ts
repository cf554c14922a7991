import type { Account } from "./accounts.ts";

/** Changes to an account's access, by the last segment of their URL, and whether they lock people out. */
export const accountSteps = {
  ban: {
    title: "Ban account",
    done: "The account is banned and signed out everywhere. We emailed the reason to its owner.",
    destroys: true,
  },
  unban: {
    title: "Lift ban",
    done: "The ban is lifted. We emailed the reason to the account’s owner.",
    destroys: false,
  },
  delete: {
    title: "Delete account",
    done: "The account is banned, and its deletion is scheduled. Until then, you can keep the account.",
    destroys: true,
  },
  keep: {
    title: "Keep account",
    done: "The deletion is canceled. We emailed the reason to the account’s owner.",
    destroys: false,
  },
  "sign-out": {
    title: "Sign out everywhere",
    done: "The account is signed out of every device, app and coding agent.",
    destroys: true,
  },
} as const satisfies Record<string, { title: string; done: string; destroys: boolean }>;

/** The default waiting time before an account is deleted, in days. */
export const defaultDeletionDays = 7;

export type AccountStep = keyof typeof accountSteps;

/** Parses a step from a URL. @returns null for an unknown step */
export function parseAccountStep(text: string | null | undefined): AccountStep | null {
  return text !== null && text !== undefined && Object.hasOwn(accountSteps, text) ? (text as AccountStep) : null;
}

/** Returns the steps that are possible now, in the order of the page. */
export function listAccountSteps({ bannedUntil, deletion }: Pick<Account, "bannedUntil" | "deletion">): AccountStep[] {
  // A recovery can have lifted the ban of an account whose deletion is scheduled.
  if (deletion) return [...(bannedUntil ? [] : (["ban"] as const)), "keep", "sign-out"];
  return [bannedUntil ? "unban" : "ban", "delete", "sign-out"];
}
