import { z } from "zod";
import { formatDay } from "../http/date-text.ts";
import { daysInWords } from "../studio/costs/cost-import/import-facts.ts";
import { amountText, countOf, formatUsd } from "../ui/format-amount.ts";

const daysSchema = z.array(z.string());
const accountId = z.string().nullable();
const workspace = { workspaceId: z.uuid(), /** Null if the workspace was deleted. */ name: z.string().nullable() };
const workspaces = z.array(z.object({ ...workspace, meteredUsd: amountText, daysWithoutRuns: daysSchema }));
/** What the provider charged minus what was metered; null if unknown. */
const differenceUsdSchema = amountText.nullable();
const runCountSchema = z.number().int();

/** A likely cause of a difference between charged and metered costs. */
export const differenceCauseSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("workspace_costs_above_metered"),
    amountUsd: amountText,
    ...workspace,
    days: z.array(z.object({ day: z.string(), amountUsd: amountText })),
  }),
  z.object({
    kind: z.literal("workspace_runs_estimated"),
    amountUsd: differenceUsdSchema,
    ...workspace,
    runs: runCountSchema,
  }),
  z.object({
    kind: z.literal("workspace_runs_closed"),
    amountUsd: differenceUsdSchema,
    ...workspace,
    runs: runCountSchema,
  }),
  /** Comes from the month's figures, and not from the database's explanation. */
  z.object({ kind: z.literal("provider_not_metered"), amountUsd: amountText }),
  z.object({ kind: z.literal("account_not_metered"), amountUsd: amountText, accountId }),
  z.object({ kind: z.literal("account_not_imported"), amountUsd: amountText, accountId, workspaces }),
  z.object({ kind: z.literal("account_differs"), amountUsd: amountText, accountId, workspaces }),
  z.object({ kind: z.literal("days_not_metered"), amountUsd: amountText, accountId, days: daysSchema }),
  z.object({ kind: z.literal("days_not_imported"), amountUsd: amountText, accountId, days: daysSchema }),
  z.object({ kind: z.literal("invoice_share"), amountUsd: amountText }),
]);
export type DifferenceCause = z.output<typeof differenceCauseSchema>;

/** A cause in words: what is wrong, and what to do about it. */
export interface CauseDescription {
  what: string;
  next: string;
}

/** Describes a cause and what to do about it, in a sentence or two each. */
export function describeDifferenceCause(cause: DifferenceCause): CauseDescription {
  switch (cause.kind) {
    case "workspace_costs_above_metered":
      return {
        what: `${beginSentenceWithDays(cause.days.map(({ day }) => day))} costs ${nameOf(cause)} imported were ${formatAbsoluteUsd(cause.amountUsd)} more than its runs cost. Some of its runs are probably missing.`,
        next: "Look for requests on those days that use this workspace’s provider key and bypass the gateway.",
      };
    case "workspace_runs_estimated":
      return {
        what: `${countOf(cause.runs, "run")} of ${nameOf(cause)} ${cause.runs === 1 ? "has" : "have"} an estimated cost: the provider sent no token counts.`,
        next: "The provider’s own counts may differ. Compare the workspace’s daily costs with the provider’s usage page.",
      };
    case "workspace_runs_closed":
      return {
        what: `${countOf(cause.runs, "run")} of ${nameOf(cause)} ended without a result, so what the provider charged for ${cause.runs === 1 ? "it" : "them"} isn’t known.`,
        next: "The provider may have charged for these. Look for them in the provider’s usage on the same days.",
      };
    case "provider_not_metered":
      return {
        what: `The provider charged ${formatUsd(cause.amountUsd)} this month, and no workspace had a run with it.`,
        next: "If runs appear under another name, set AI_PROVIDER_<ID>_BILLING_NAME on that provider to this one’s name. Otherwise, find out who uses its keys.",
      };
    case "account_not_metered":
      return {
        what: `The provider charged ${formatUsd(cause.amountUsd)} to ${describeAccount(cause)}, which no workspace’s runs name.`,
        next: "If it is one of yours, set AI_PROVIDER_<ID>_ACCOUNT on the provider that uses it. Otherwise, find out who uses its keys.",
      };
    case "account_not_imported":
      return {
        what: `Runs on ${describeAccount(cause)} cost ${formatAbsoluteUsd(cause.amountUsd)}, and none of it was imported.`,
        next: "Import this account’s costs, or a bill that includes it.",
      };
    case "account_differs":
      return {
        what: `The provider charged ${describeAccount(cause)} ${formatAbsoluteUsd(cause.amountUsd)} ${moreOrLess(cause.amountUsd)} than was metered. ${describeUsers(cause.workspaces)}`,
        next:
          describeSuspect(cause) ??
          "Compare the days below, and check the prices of the models that these workspaces use.",
      };
    case "days_not_metered":
      return {
        what: `The provider charged ${formatUsd(cause.amountUsd)} to ${describeAccount(cause)}${formatDayList(cause.days)}, without any run.`,
        next: "Look for requests that bypass the gateway on those days.",
      };
    case "days_not_imported":
      return {
        what: `Runs on ${describeAccount(cause)} cost ${formatAbsoluteUsd(cause.amountUsd)}${formatDayList(cause.days)}, and nothing was imported for ${cause.days.length === 1 ? "that day" : "those days"}.`,
        next: "Import a file that includes those days.",
      };
    case "invoice_share":
      return {
        what: `The invoices are ${formatAbsoluteUsd(cause.amountUsd)} ${moreOrLess(cause.amountUsd)} than everything above explains.`,
        next: "Check for tax, fees or discounts on the invoice, a missing credit note, or a corrected invoice that doesn’t name the one it replaces.",
      };
  }
}

/** Returns the workspaces that a cause names. */
export function workspacesOf(cause: DifferenceCause): { workspaceId: string; name: string | null }[] {
  if ("workspaceId" in cause) return [cause];
  return "workspaces" in cause ? cause.workspaces : [];
}

function nameOf({ name, workspaceId }: { name: string | null; workspaceId: string }): string {
  return name ?? `Deleted workspace ${workspaceId}`;
}

function describeAccount({ accountId: id }: { accountId: string | null }): string {
  return id === null ? "all its accounts together" : `account ${id}`;
}

function formatAbsoluteUsd(amount: string): string {
  return formatUsd(amount.replace("-", ""));
}

function moreOrLess(amount: string): string {
  return amount.startsWith("-") ? "less" : "more";
}

/**
 * Names the workspace most likely to be missing runs. This workspace has no runs on days when the provider charged more
 * than was metered.
 */
function describeSuspect({
  amountUsd: amount,
  workspaces: users,
}: Extract<DifferenceCause, { kind: "account_differs" }>) {
  const [first] = users;
  if (!first || amount.startsWith("-") || first.daysWithoutRuns.length === 0) return null;
  return `${nameOf(first)} has no runs${formatDayList(first.daysWithoutRuns)}, when the provider charged more than was metered. Check this workspace for requests that bypass the gateway on those days.`;
}

function describeUsers(users: readonly { workspaceId: string; name: string | null }[]): string {
  const names = users.slice(0, maxNames).map(nameOf);
  const others = users.length - names.length;
  return `Used by ${joinList([...names, ...(others > 0 ? [countOf(others, "other workspace")] : [])])}.`;
}

const maxNames = 3;
const maxSpans = 4;

/**
 * Formats days as " from 3 Oct 2026 to 9 Oct 2026", or " on 3 Oct 2026, from 5 Oct 2026 to 9 Oct 2026 and on 3 other
 * days".
 */
function formatDayList(list: readonly string[]): string {
  if (list.length === 0) return "";
  const spans = groupConsecutiveDays(list);
  const listedSpans = spans.slice(0, maxSpans);
  const others = spans.slice(maxSpans).reduce((sum, { days: many }) => sum + many, 0);
  const rest = others > 0 ? [countOf(others, "other day")] : [];
  if (listedSpans.every(({ days: many }) => many === 1)) {
    return ` on ${joinList([...listedSpans.map(({ first }) => formatDay(first)), ...rest])}`;
  }
  const texts = listedSpans.map(({ first, last, days: many }) =>
    many === 1 ? `on ${formatDay(first)}` : `from ${daysInWords(first, last)}`,
  );
  return ` ${joinList([...texts, ...rest.map((days) => `on ${days}`)])}`;
}

/** Begins a sentence with the days: "From 3 Oct 2026 to 9 Oct 2026, the", or "The" without days. */
function beginSentenceWithDays(list: readonly string[]): string {
  const during = formatDayList(list).slice(1);
  return during === "" ? "The" : `${during.charAt(0).toUpperCase()}${during.slice(1)}, the`;
}

/** Groups consecutive days. */
function groupConsecutiveDays(list: readonly string[]): { first: string; last: string; days: number }[] {
  const spans: { first: string; last: string; days: number }[] = [];
  for (const day of list) {
    const span = spans.at(-1);
    if (span && Date.parse(day) - Date.parse(span.last) === dayMs) {
      span.last = day;
      span.days += 1;
    } else spans.push({ first: day, last: day, days: 1 });
  }
  return spans;
}

const dayMs = 24 * 60 * 60 * 1000;

function joinList(parts: readonly string[]): string {
  return new Intl.ListFormat("en-GB", { type: "conjunction" }).format(parts);
}
