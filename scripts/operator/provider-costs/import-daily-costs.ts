import { parseExactJson } from "#shared/exact-json.ts";
import { jsonNumber } from "#shared/raw-json.ts";
import { type CostReport, readDays } from "./read-days.ts";
import { request } from "./request.ts";

/** The gateway to import into, with a key that is bound to the app that owns the accounts. */
export type Gateway = { baseUrl: string; key: string; workspaceId: string };

/** How far an account's costs have been imported, and which of the imported days have a cost. */
export type Bookmark = { through: string; charged: Iterable<string> };

/** Reads and writes the bookmark of each account. Bookmarks are kept between runs. */
export type Bookmarks = {
  read: (account: string) => Bookmark | undefined;
  write: (account: string, bookmark: Bookmark) => void;
};

export type ImportOptions = {
  report: CostReport;
  /** The provider's name in imported costs. */
  provider: string;
  gateway: Gateway;
  accounts: readonly string[];
  /**
   * The first UTC day. Defaults to a few days before the end of the account's imported days, because recent costs still
   * change.
   */
  from?: string | undefined;
  /** The first UTC day that is not imported. */
  to: string;
  bookmarks: Bookmarks;
  /** Reports how many of an account's days are done. */
  progress: (account: string, days: { done: number; total: number }) => void;
};

/** The number of days that each run reads again, since providers correct recent days. */
const overlapDays = 7;
/** How far back the first import of an account goes. */
const firstDays = 90;
const dayMs = 86_400_000;
/** Maximum records in a batch. */
const batchSize = 100;

type Charge = { day: string; amountUsd: string };

/**
 * Imports each account's costs as one record per day. If a later page fails, the imported days are kept, and the next
 * run continues from there. Days that are read again are corrected. If such a day had a cost and the provider no longer
 * reports one, the day is set to 0. A day that cannot be imported does not stop the others. The bookmark stops at the
 * first such day, so later runs retry the day, unless `options.from` is later.
 * @returns the number of days for each outcome, and in `unread` the first unread day of each account whose report ended
 * early
 * @throws Error with a one-sentence message. If days could not be imported, it is thrown after all others are imported
 */
export async function importDailyCosts(
  options: ImportOptions,
): Promise<{ outcomes: Record<string, number>; unread: { account: string; from: string }[] }> {
  const outcomes: Record<string, number> = {};
  const unread: { account: string; from: string }[] = [];
  const refusals: string[] = [];
  for (const account of options.accounts) {
    const bookmark = options.bookmarks.read(account);
    const charged = new Set(bookmark?.charged);
    const from = options.from ?? startOf(bookmark?.through, options.to);
    const total = daysBetween(from, options.to);
    let firstRefused: string | undefined;
    let reached = from;
    const refuse = (day: string, why: string) => {
      refusals.push(why);
      if (firstRefused === undefined || day < firstRefused) firstRefused = day;
    };
    options.progress(account, { done: 0, total });
    for await (const { days, disputed, through } of readDays(options.report, { account, from, to: options.to })) {
      const charges = days.flatMap(({ day, amountUsd }): Charge[] => {
        if (amountUsd !== undefined) return [{ day, amountUsd }];
        return charged.has(day) ? [{ day, amountUsd: "0" }] : [];
      });
      for (const { day, amountUsd, outcome, refusal } of await post(options, { account, charges })) {
        if (outcome === undefined) {
          refuse(day, refusal);
          continue;
        }
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        if (amountUsd === "0") charged.delete(day);
        else charged.add(day);
      }
      for (const day of disputed) refuse(day, `${options.report.name} states two costs of ${account} on ${day}.`);
      reached = through;
      const [, furthest = through] = [bookmark?.through ?? from, through].toSorted();
      const done = firstRefused !== undefined && firstRefused < furthest ? firstRefused : furthest;
      options.bookmarks.write(account, { through: done, charged });
      options.progress(account, { done: daysBetween(from, through), total });
    }
    if (reached < options.to) unread.push({ account, from: reached });
  }
  if (refusals.length > 0) throw new Error(`All other days are imported. ${refusals.join("\n")}`);
  return { outcomes, unread };
}

function startOf(bookmark: string | undefined, to: string): string {
  const back = bookmark === undefined ? firstDays : overlapDays;
  return new Date(Date.parse(bookmark ?? to) - back * dayMs).toISOString().slice(0, 10);
}

function daysBetween(from: string, to: string): number {
  return Math.max(0, Math.round((Date.parse(to) - Date.parse(from)) / dayMs));
}

type Result = { outcome?: string; externalRunId?: string; error?: { code: string; message: string } };
type Posted = Charge & ({ outcome: string; refusal?: undefined } | { outcome?: undefined; refusal: string });

async function post(
  { provider, gateway: { baseUrl, key, workspaceId } }: ImportOptions,
  { account, charges }: { account: string; charges: readonly Charge[] },
): Promise<Posted[]> {
  const posted: Posted[] = [];
  // Taken after the provider's response, because the gateway keeps the amount with the latest `observedAt`.
  const observedAt = new Date().toISOString();
  for (let at = 0; at < charges.length; at += batchSize) {
    const batch = charges.slice(at, at + batchSize);
    const records = batch.map(({ day, amountUsd }) => ({
      provider,
      externalRunId: `${provider}-costs:${account}:${day}`,
      accountId: account,
      granularity: "account_day",
      amountUsd: jsonNumber(amountUsd),
      occurredAt: `${day}T00:00:00Z`,
      observedAt,
    }));
    const { text } = await request(new URL(`${baseUrl.replace(/\/+$/, "")}/provider-costs/batch`), {
      server: "The gateway",
      headers: {
        authorization: `Bearer ${key}`,
        "x-platform-workspace-id": workspaceId,
        "content-type": "application/json",
      },
      body: JSON.stringify({ records }),
    });
    const { results } = parseExactJson(text) as { results: Result[] };
    for (const [n, charge] of batch.entries()) {
      const { outcome, error } = results[n] ?? {};
      const refusal = `The gateway refuses ${records[n]?.externalRunId}: ${error?.code}. ${error?.message}`;
      posted.push(outcome === undefined ? { ...charge, refusal } : { ...charge, outcome });
    }
  }
  return posted;
}
