import { periodWords } from "../studio/budgets/budget-words.ts";
import { countText } from "../ui/count-text.ts";
import { countOf, formatExactUsd } from "../ui/format-amount.ts";
import type { BlockedDeletion, FailingImporter, LateJob, Overview, UsedUpBudget } from "./overview.ts";

/** The maximum number of rows that a card lists (private.read_overview). */
const maxRows = 10;

/** The maximum number of routes that the overview lists of a provider. The page about providers has all of them. */
export const maxTroubledRoutes = 5;

/** Says how many rows a card leaves out, or nothing: "The 10 oldest of 1,000+." */
export function restWords(count: number, order: "oldest" | "latest" | "earliest"): string | null {
  return count > maxRows ? `The ${maxRows} ${order} of ${countText(count)}.` : null;
}

const subjects = { key: "key", app: "app", member: "member", label: "label", workspace: "the workspace" } as const;

/** Names a budget and its limit: "Monthly budget of key CI: $50.00". */
export function budgetWords({ scope, name, period, limitUsd }: Omit<UsedUpBudget, "refusedAt">): string {
  const { budget } = periodWords[period];
  const subject = scope === "workspace" ? subjects.workspace : `${subjects[scope]} ${name ?? "that was deleted"}`;
  return `${budget} of ${subject}: ${formatExactUsd(limitUsd)}`;
}

/** Says what is wrong with an importer, in at most two sentences. */
export function importerWords({
  failures,
  lastError,
  missedDays,
}: Omit<FailingImporter, "provider" | "lastCompleteDay">) {
  return [
    failures > 0 ? (lastError ?? "The last attempt failed.") : null,
    failures > 1 ? `${countOf(failures, "attempt")} failed.` : null,
    missedDays > 0 ? `${countOf(missedDays, "day")} not imported: import them from a file.` : null,
  ]
    .filter((sentence) => sentence !== null)
    .join(" ");
}

/** Says which emails were not sent, one sentence for each case. */
export function mailWords({ failed, waiting }: Overview["mails"]): string[] {
  const emails = (count: number) => `${countText(count)} ${count === 1 ? "email" : "emails"}`;
  return [
    ...(failed > 0 ? [`${emails(failed)} could not be sent in twelve attempts.`] : []),
    ...(waiting > 0 ? [`${emails(waiting)} ${waiting === 1 ? "has" : "have"} been due for more than 15 minutes.`] : []),
  ];
}

/** Says why a due deletion was not made. */
export function deletionWords({ blockers, workspaces }: Pick<BlockedDeletion, "blockers" | "workspaces">): string {
  if (blockers === 0) return "The account is not deleted yet. Check the logs of the database.";
  const more = blockers > workspaces.length ? ` and ${countOf(blockers - workspaces.length, "more workspace")}` : "";
  return `Without another owner: ${workspaces.join(", ")}${more}.`;
}

/** What each scheduled job does, and the guide about its delay. */
export const jobWords: Readonly<Record<LateJob["job"], { name: string; guide: string }>> = {
  sweep: { name: "Closing abandoned runs", guide: "/docs/operating#gatehouserunsnotsettled" },
  sums: { name: "Summing usage", guide: "/docs/operating#gatehouseusagenotsummed" },
};
