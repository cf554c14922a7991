import { parseExactJson } from "#shared/exact-json.ts";
import { jsonNumber } from "#shared/raw-json.ts";
import { daysOfPage, type OpenAiCosts, type ProjectDay, readProjectDays } from "./openai-costs.ts";
import { request } from "./request.ts";

/** Where days go: the gateway, with a key that is bound to the app whose accounts the projects are. */
export type Gateway = { baseUrl: string; key: string; workspaceId: string };

/** How far a project's days were imported, and which of them have a cost. */
export type Bookmark = { through: string; charged: Iterable<string> };

/** Bookmarks of projects, kept between runs. */
export type Bookmarks = {
  read: (project: string) => Bookmark | undefined;
  write: (project: string, bookmark: Bookmark) => void;
};

export type ImportOptions = {
  costs: OpenAiCosts;
  gateway: Gateway;
  projects: readonly string[];
  /** The first UTC day; without it, a while before the bookmark, since costs of late days still change. */
  from?: string | undefined;
  /** The UTC day after the last. */
  to: string;
  bookmarks: Bookmarks;
  /** Told of days that are done, of all that were asked for. */
  progress: (project: string, days: { done: number; total: number }) => void;
};

/** Days that are read again each time: OpenAI corrects the latest ones. */
const overlapDays = 7;
/** How far back a project goes that was never imported. */
const firstDays = 90;
const dayMs = 86_400_000;

/**
 * Imports each project's daily costs as account days. What was imported stays where a later page fails: the next run
 * goes on from there, and days that it meets again are corrected or unchanged: one that had a cost, and is answered
 * without any by now, to nothing. A day that the gateway refuses, as one of less than nothing, holds up no other; what is done is said to end before it, so that each run tries it again until it
 * is taken, or one begins after it.
 * @returns how many days each outcome had
 * @throws Error in a sentence for people; about days that were refused once all others are imported
 */
export async function importOpenAiCosts(options: ImportOptions): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const refusals: string[] = [];
  for (const project of options.projects) {
    const bookmark = options.bookmarks.read(project);
    const charged = new Set(bookmark?.charged);
    const from = options.from ?? startOf(bookmark?.through, options.to);
    const total = daysBetween(from, options.to);
    let firstRefused: string | undefined;
    options.progress(project, { done: 0, total });
    for await (const { days, without, through } of readProjectDays(options.costs, { project, from, to: options.to })) {
      const emptied = without.filter((day) => charged.has(day)).map((day) => ({ project, day, amountUsd: "0" }));
      // Seen after OpenAI's answer, so that a later run's word is the newer one.
      const observedAt = new Date().toISOString();
      const posted = await post(options.gateway, { days: [...days, ...emptied], observedAt });
      for (const { day, amountUsd, outcome, refusal } of posted) {
        if (outcome === undefined) {
          refusals.push(refusal);
          if (firstRefused === undefined || day < firstRefused) firstRefused = day;
          continue;
        }
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        if (amountUsd === "0") charged.delete(day);
        else charged.add(day);
      }
      if (through === undefined) continue;
      const done = firstRefused === undefined || through < firstRefused ? through : firstRefused;
      options.bookmarks.write(project, { through: done, charged });
      options.progress(project, { done: Math.min(total, daysBetween(from, through)), total });
    }
  }
  if (refusals.length > 0) throw new Error(`All other days are imported. ${refusals.join("\n")}`);
  return outcomes;
}

function startOf(bookmark: string | undefined, to: string): string {
  const back = bookmark === undefined ? firstDays : overlapDays;
  return new Date(Date.parse(bookmark ?? to) - back * dayMs).toISOString().slice(0, 10);
}

function daysBetween(from: string, to: string): number {
  return Math.max(0, Math.round((Date.parse(to) - Date.parse(from)) / dayMs));
}

type Result = { outcome?: string; externalRunId?: string; error?: { code: string; message: string } };
type Posted = ProjectDay & ({ outcome: string; refusal?: undefined } | { outcome?: undefined; refusal: string });

async function post(
  { baseUrl, key, workspaceId }: Gateway,
  { days, observedAt }: { days: readonly ProjectDay[]; observedAt: string },
): Promise<Posted[]> {
  if (days.length > daysOfPage) throw new Error(`OpenAI answered more than ${daysOfPage} days at once.`);
  if (days.length === 0) return [];
  const records = days.map(({ project, day, amountUsd }) => ({
    provider: "openai",
    externalRunId: `openai-costs:${project}:${day}`,
    accountId: project,
    granularity: "account_day",
    amountUsd: jsonNumber(amountUsd),
    occurredAt: `${day}T00:00:00Z`,
    observedAt,
  }));
  const text = await request(new URL(`${baseUrl.replace(/\/+$/, "")}/provider-costs/batch`), {
    whom: "The gateway",
    headers: {
      authorization: `Bearer ${key}`,
      "x-platform-workspace-id": workspaceId,
      "content-type": "application/json",
    },
    body: JSON.stringify({ records }),
  });
  const { results } = parseExactJson(text) as { results: Result[] };
  return days.map((day, n) => {
    const { outcome, error } = results[n] ?? {};
    if (outcome !== undefined) return { ...day, outcome };
    return { ...day, refusal: `The gateway refuses ${records[n]?.externalRunId}: ${error?.code}. ${error?.message}` };
  });
}
