import { parseExactJson } from "#shared/exact-json.ts";
import { jsonNumber } from "#shared/raw-json.ts";
import { daysOfPage, type OpenAiCosts, type ProjectDay, readProjectDays } from "./openai-costs.ts";
import { request } from "./request.ts";

/** Where days go: the gateway, with a key that is bound to the app whose accounts the projects are. */
export type Gateway = { baseUrl: string; key: string; workspaceId: string };

/** How far a project's days were imported, kept between runs. */
export type Bookmarks = {
  read: (project: string) => string | undefined;
  write: (project: string, through: string) => void;
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
 * goes on from there, and days that it meets again are corrected or unchanged. A day that the gateway refuses, as one of
 * less than nothing, holds up no other; what is done is said to end before it, so that each run tries it again until it
 * is taken, or one begins after it.
 * @returns how many days each outcome had
 * @throws Error in a sentence for people; about days that were refused once all others are imported
 */
export async function importOpenAiCosts(options: ImportOptions): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const refusals: string[] = [];
  for (const project of options.projects) {
    const from = options.from ?? startOf(options.bookmarks.read(project), options.to);
    const total = daysBetween(from, options.to);
    let firstRefused: string | undefined;
    options.progress(project, { done: 0, total });
    for await (const { days, through } of readProjectDays(options.costs, { project, from, to: options.to })) {
      // Seen after OpenAI's answer, so that a later run's word is the newer one.
      const observedAt = new Date().toISOString();
      for (const { day, outcome, refusal } of await post(options.gateway, { days, observedAt })) {
        if (outcome === undefined) {
          refusals.push(refusal);
          if (firstRefused === undefined || day < firstRefused) firstRefused = day;
        } else outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      }
      if (through === undefined) continue;
      options.bookmarks.write(project, firstRefused === undefined || through < firstRefused ? through : firstRefused);
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
type Posted = { day: string } & ({ outcome: string; refusal?: undefined } | { outcome?: undefined; refusal: string });

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
  return results.map(({ outcome, error }, n) => {
    const day = days[n]?.day ?? "";
    if (outcome !== undefined) return { day, outcome };
    return { day, refusal: `The gateway refuses ${records[n]?.externalRunId}: ${error?.code}. ${error?.message}` };
  });
}
